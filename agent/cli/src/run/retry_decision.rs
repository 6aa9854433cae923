//! Decides whether a failed build is retried here, from the verdict and the conditions.
//!
//! Memory, time limit and machine are the same for a retry here. So only verdicts that fewer jobs or another moment may help are acted on;
//! others are for the CI system. Pure: no I/O, no clock.

use std::time::Duration;

use plimsoll_proto::{
    shown::clean,
    v1::{Action, Cause, Verdict},
};

/// The longest wait in a place that is paid for meanwhile.
const LONGEST_WAIT: Duration = Duration::from_mins(15);

/// The step after a failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Run it again.
    Again {
        /// With this number of jobs; `None`: unchanged.
        jobs: Option<u32>,
        /// After this time.
        wait: Duration,
        /// The reason as text.
        why: String,
    },
    /// Leave it, for this reason.
    Stop(String),
}

/// Where the build ran, as far as it matters.
#[derive(Debug, Clone, Default)]
pub(super) struct RetryConditions {
    /// Parallel jobs of the try that failed, if they are known.
    pub(super) jobs: Option<u32>,
    /// Why the command cannot be given another number of jobs, if it cannot.
    pub(super) fixed: Option<String>,
    /// The memory limit that was in force, bytes.
    pub(super) memory_limit: Option<u64>,
    /// Whether the CI system has a larger builder for the verdict `bigger`, and an exit code that asks for it.
    pub(super) larger_elsewhere: bool,
}

/// The step for a verdict here.
pub(super) fn next(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    match verdict.action() {
        Action::No | Action::Unspecified => NextStep::Stop(format!("the verdict is no: {}", reason(verdict))),
        Action::Longer => {
            NextStep::Stop(format!("it needs more time than this job has: {}", reason(verdict)))
        }
        Action::Elsewhere => NextStep::Stop(format!("it needs another place: {}", reason(verdict))),
        Action::AsIs => as_is(verdict),
        Action::FewerJobs => fewer(verdict, place),
        Action::Bigger => smaller(verdict, place),
    }
}

fn as_is(verdict: &Verdict) -> NextStep {
    if matches!(verdict.cause(), Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode) {
        return NextStep::Stop(format!("this place is being taken away: {}", reason(verdict)));
    }
    let wait = Duration::from_millis(verdict.outlook.as_ref().map_or(0, |outlook| outlook.wait_ms));
    if wait > LONGEST_WAIT {
        return NextStep::Stop(format!(
            "the verdict asks to wait {wait:?}, and a place is not held longer than {LONGEST_WAIT:?}"
        ));
    }
    NextStep::Again { jobs: None, wait, why: reason(verdict) }
}

/// A retry with the verdict's number of jobs.
fn fewer(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    match (given_jobs(verdict), place.jobs) {
        (Some(jobs), had) if had.is_none_or(|had| jobs < had) => with_jobs(jobs, place, reason(verdict)),
        _ => NextStep::Stop("the verdict names no number of jobs below that of this try".to_owned()),
    }
}

/// The number of jobs of the next attempt.
fn given_jobs(verdict: &Verdict) -> Option<u32> {
    let given = verdict.next.as_ref()?.build_jobs.as_ref()?;
    u32::try_from(given.value).ok().filter(|&jobs| jobs > 0)
}

/// More is not to be had here. Where memory was short: as many jobs as fit, if memory follows their number.
fn smaller(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    let needs = format!("it needs a larger place: {}", reason(verdict));
    if !matches!(verdict.cause(), Cause::Oom | Cause::Starved) {
        return NextStep::Stop(needs);
    }
    if place.larger_elsewhere {
        return NextStep::Stop(format!("{needs}; the exit code asks for one"));
    }
    let Some(had) = place.jobs else {
        return NextStep::Stop(format!("{needs}; how many jobs it runs is not known (--key build_jobs=N)"));
    };
    if had <= 1 {
        return NextStep::Stop(format!("{needs}, and runs a single job already"));
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

fn with_jobs(jobs: u32, place: &RetryConditions, why: String) -> NextStep {
    match &place.fixed {
        Some(fixed) => NextStep::Stop(format!("it should run with -j{jobs}, but {fixed}")),
        None => NextStep::Again { jobs: Some(jobs), wait: Duration::ZERO, why },
    }
}

fn reason(verdict: &Verdict) -> String {
    clean(&verdict.reason)
}

#[cfg(test)]
mod tests;
