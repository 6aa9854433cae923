//! Whether a failed build is run again in its place: what the verdict says, and what can be done about it here.
//!
//! The place stays as it is: its memory, its time and its machine. So only a verdict that fewer jobs or another moment may help is
//! acted on; the others are for whoever makes places. Pure: no I/O, no clock.

use std::time::Duration;

use plimsoll_proto::v1::{Action, Cause, Verdict};

use crate::report::clean;

/// The longest wait in a place that is paid for meanwhile.
const LONGEST_WAIT: Duration = Duration::from_mins(15);

/// What to do after a failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Run it again.
    Again {
        /// With so many jobs; `None` changes nothing.
        jobs: Option<u32>,
        /// After this time.
        wait: Duration,
        /// The reason, in words.
        why: String,
    },
    /// Leave it, for this reason.
    Stop(String),
}

/// Where the build ran, as far as it matters.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Parallel jobs of the try that failed, if they are known.
    pub(super) jobs: Option<u32>,
    /// Why the command cannot be given another number of jobs, if it cannot.
    pub(super) fixed: Option<String>,
    /// The memory limit that was in force, bytes.
    pub(super) memory_limit: Option<u64>,
    /// Whoever started the agent has a larger place for the verdict `bigger`, and an exit code that asks for it.
    pub(super) larger_elsewhere: bool,
}

/// What the verdict means in this place.
pub(super) fn next(verdict: &Verdict, place: &Place) -> Next {
    match verdict.action() {
        Action::No | Action::Unspecified => Next::Stop(format!("the verdict is no: {}", reason(verdict))),
        Action::Longer => Next::Stop(format!("it needs more time than this job has: {}", reason(verdict))),
        Action::Elsewhere => Next::Stop(format!("it needs another place: {}", reason(verdict))),
        Action::AsIs => as_is(verdict),
        Action::FewerJobs => fewer(verdict, place),
        Action::Bigger => smaller(verdict, place),
    }
}

fn as_is(verdict: &Verdict) -> Next {
    if matches!(verdict.cause(), Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode) {
        return Next::Stop(format!("this place is being taken away: {}", reason(verdict)));
    }
    let wait = Duration::from_millis(verdict.outlook.as_ref().map_or(0, |outlook| outlook.wait_ms));
    if wait > LONGEST_WAIT {
        return Next::Stop(format!(
            "the verdict asks to wait {wait:?}, and a place is not held longer than {LONGEST_WAIT:?}"
        ));
    }
    Next::Again { jobs: None, wait, why: reason(verdict) }
}

/// With the number that the verdict gives.
fn fewer(verdict: &Verdict, place: &Place) -> Next {
    match (given_jobs(verdict), place.jobs) {
        (Some(jobs), had) if had.is_none_or(|had| jobs < had) => with_jobs(jobs, place, reason(verdict)),
        _ => Next::Stop("the verdict names no number of jobs below that of this try".to_owned()),
    }
}

/// The number of jobs of the next attempt.
fn given_jobs(verdict: &Verdict) -> Option<u32> {
    let given = verdict.next.as_ref()?.build_jobs.as_ref()?;
    u32::try_from(given.value).ok().filter(|&jobs| jobs > 0)
}

/// More is not to be had here. Where memory was short: as many jobs as fit, if memory follows their number.
fn smaller(verdict: &Verdict, place: &Place) -> Next {
    let needs = format!("it needs a larger place: {}", reason(verdict));
    if !matches!(verdict.cause(), Cause::Oom | Cause::Starved) {
        return Next::Stop(needs);
    }
    if place.larger_elsewhere {
        return Next::Stop(format!("{needs}; the exit code asks for one"));
    }
    let Some(had) = place.jobs else {
        return Next::Stop(format!("{needs}; how many jobs it runs is not known (--key build_jobs=N)"));
    };
    if had <= 1 {
        return Next::Stop(format!("{needs}, and runs a single job already"));
    }
    let wanted = verdict.next.as_ref().and_then(|next| next.memory_limit_bytes.as_ref());
    // the larger place may be meant for fewer jobs, too
    let meant = given_jobs(verdict).map_or(had, |jobs| jobs.min(had));
    let fitting = match (place.memory_limit, wanted.map(|size| size.value)) {
        (Some(limit), Some(wanted)) if wanted > limit => {
            u32::try_from(u128::from(meant) * u128::from(limit) / u128::from(wanted)).unwrap_or(meant)
        }
        _ => meant.min(had / 2),
    };
    let why = format!("{}; there is no more memory here, so with fewer jobs", reason(verdict));
    with_jobs(fitting.clamp(1, had.saturating_sub(1)), place, why)
}

fn with_jobs(jobs: u32, place: &Place, why: String) -> Next {
    match &place.fixed {
        Some(fixed) => Next::Stop(format!("it should run with -j{jobs}, but {fixed}")),
        None => Next::Again { jobs: Some(jobs), wait: Duration::ZERO, why },
    }
}

fn reason(verdict: &Verdict) -> String {
    clean(&verdict.reason)
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Outlook, Prediction, Quantity};

    use super::*;

    fn verdict(action: Action) -> Verdict {
        Verdict { action: action.into(), reason: "so it is".to_owned(), ..Verdict::default() }
    }

    fn sized(action: Action, jobs: u64, memory: u64) -> Verdict {
        let quantity = |value| Some(Quantity { value, basis: None });
        let next = Prediction {
            build_jobs: quantity(jobs),
            memory_limit_bytes: quantity(memory),
            ..Prediction::default()
        };
        Verdict { next: Some(next), ..verdict(action) }
    }

    fn place(jobs: u32) -> Place {
        Place { jobs: Some(jobs), memory_limit: Some(4 << 30), ..Place::default() }
    }

    fn jobs(next: &Next) -> Option<u32> {
        match next {
            Next::Again { jobs, .. } => *jobs,
            Next::Stop(_) => None,
        }
    }

    fn why(next: Next) -> String {
        match next {
            Next::Stop(why) => why,
            Next::Again { .. } => panic!("{next:?}"),
        }
    }

    #[test]
    fn fewer_jobs_are_those_of_the_verdict_and_never_more_than_before() {
        assert_eq!(jobs(&next(&sized(Action::FewerJobs, 4, 0), &place(8))), Some(4));
        assert_eq!(jobs(&next(&sized(Action::FewerJobs, 4, 0), &Place::default())), Some(4));
        for (given, had) in [(4, 4), (8, 4), (0, 4), (u64::MAX, 4)] {
            let stopped = why(next(&sized(Action::FewerJobs, given, 0), &place(had)));
            assert!(stopped.contains("no number of jobs below"), "{given}: {stopped}");
        }
        assert!(why(next(&verdict(Action::FewerJobs), &place(8))).contains("no number of jobs"));
    }

    #[test]
    fn a_build_that_is_too_large_runs_as_many_jobs_as_fit_its_place() {
        let short = |verdict| Verdict { cause: Cause::Oom.into(), ..verdict };
        let with = |given, memory| short(sized(Action::Bigger, given, memory));
        assert_eq!(jobs(&next(&with(8, 6 << 30), &place(8))), Some(5));
        assert_eq!(jobs(&next(&with(4, 6 << 30), &place(8))), Some(2), "6 GiB are meant for 4 jobs");
        assert_eq!(jobs(&next(&with(8, 1 << 50), &place(8))), Some(1));
        assert_eq!(jobs(&next(&with(8, (4 << 30) + 1), &place(8))), Some(7));
        assert_eq!(jobs(&next(&with(8, 1), &place(8))), Some(4), "another limit was short");
        let bare = short(verdict(Action::Bigger));
        assert_eq!(jobs(&next(&bare, &place(3))), Some(1));
        assert!(why(next(&bare, &place(1))).contains("a single job already"));
        assert!(why(next(&bare, &Place::default())).contains("--key build_jobs=N"));
        let elsewhere = Place { larger_elsewhere: true, ..place(8) };
        assert!(why(next(&bare, &elsewhere)).contains("the exit code asks for one"));
    }

    #[test]
    fn more_cpu_is_not_made_up_for_by_fewer_jobs() {
        let slow = Verdict { cause: Cause::Contention.into(), ..sized(Action::Bigger, 8, 6 << 30) };
        assert_eq!(why(next(&slow, &place(8))), "it needs a larger place: so it is");
    }

    #[test]
    fn a_command_that_sets_its_own_jobs_is_left_alone() {
        let fixed = Place { fixed: Some("it says -j8 itself".to_owned()), ..place(8) };
        let stopped = why(next(&sized(Action::FewerJobs, 4, 0), &fixed));
        assert_eq!(stopped, "it should run with -j4, but it says -j8 itself");
    }

    #[test]
    fn as_it_was_waits_as_long_as_the_verdict_says_and_not_for_ever() {
        let waiting = |wait_ms| Verdict {
            outlook: Some(Outlook { wait_ms, ..Outlook::default() }),
            ..verdict(Action::AsIs)
        };
        let again = |wait| Next::Again { jobs: None, wait, why: "so it is".to_owned() };
        assert_eq!(next(&waiting(30_000), &place(1)), again(Duration::from_secs(30)));
        assert_eq!(next(&verdict(Action::AsIs), &place(1)), again(Duration::ZERO));
        assert!(why(next(&waiting(900_001), &place(1))).contains("not held longer than 900s"));
    }

    #[test]
    fn what_the_place_cannot_give_is_not_tried_in_it() {
        for action in [Action::No, Action::Unspecified, Action::Longer, Action::Elsewhere] {
            assert!(why(next(&sized(action, 1, 1), &place(8))).ends_with(": so it is"), "{action:?}");
        }
        let taken = Verdict { cause: Cause::Preempted.into(), ..verdict(Action::AsIs) };
        assert!(why(next(&taken, &place(8))).contains("is being taken away"));
    }
}
