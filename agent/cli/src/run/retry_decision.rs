//! Decides whether a failed build is retried in this run, from the verdict and the conditions here.
//!
//! A retry here has the same memory, time limit and machine. So it helps only if fewer jobs or a later time may
//! help; the CI system must act on other verdicts. No I/O, no clock.

use std::time::Duration;

use plimsoll_proto::{
    cause::Cause,
    shown::clean,
    v1::{Action, Verdict},
};

/// Longest wait before a retry: the job occupies its builder, which costs money, while it waits.
const LONGEST_WAIT: Duration = Duration::from_mins(15);

/// What to do after a failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Run the command again.
    Again {
        /// Number of jobs of the retry; `None`: unchanged.
        jobs: Option<u32>,
        /// How long to wait before the retry.
        wait: Duration,
        /// Why the command is run again, in words.
        why: String,
    },
    /// Do not retry, for this reason.
    Stop(String),
}

/// What matters about this run and its machine for the decision.
#[derive(Debug, Clone, Default)]
pub(super) struct RetryConditions {
    /// Number of parallel jobs of the failed try, if known.
    pub(super) jobs: Option<u32>,
    /// Why the command cannot get another number of jobs; `None` if it can.
    pub(super) unchangeable: Option<String>,
    /// The memory limit that was in force, bytes.
    pub(super) memory_limit: Option<u64>,
    /// Whether the verdict `bigger` has an exit code, by which the CI system gives the job a larger builder.
    pub(super) larger_elsewhere: bool,
}

/// What to do after this verdict.
pub(super) fn next_step(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    match verdict.action() {
        Action::No | Action::Unspecified => {
            NextStep::Stop(format!("the verdict is no: {}", verdict_reason(verdict)))
        }
        Action::Longer => {
            NextStep::Stop(format!("it needs more time than this job has: {}", verdict_reason(verdict)))
        }
        Action::Elsewhere => NextStep::Stop(format!("it needs another place: {}", verdict_reason(verdict))),
        Action::AsIs => retry_as_is(verdict),
        Action::FewerJobs => retry_with_fewer(verdict, place),
        Action::Bigger => retry_bigger(verdict, place),
    }
}

fn retry_as_is(verdict: &Verdict) -> NextStep {
    if Cause::of_wire(verdict.cause()).is_some_and(Cause::is_taken_away) {
        return NextStep::Stop(format!("this place is being taken away: {}", verdict_reason(verdict)));
    }
    let wait = Duration::from_millis(verdict.outlook.as_ref().map_or(0, |outlook| outlook.wait_ms));
    if wait > LONGEST_WAIT {
        return NextStep::Stop(format!(
            "the verdict asks to wait {wait:?}, and a place is not held longer than {LONGEST_WAIT:?}"
        ));
    }
    NextStep::Again { jobs: None, wait, why: verdict_reason(verdict) }
}

/// A retry with the number of jobs in the verdict.
fn retry_with_fewer(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    match (given_jobs(verdict), place.jobs) {
        (Some(jobs), had) if had.is_none_or(|had| jobs < had) => {
            retry_with_jobs(jobs, place, verdict_reason(verdict))
        }
        _ => NextStep::Stop("the verdict names no number of jobs below that of this try".to_owned()),
    }
}

/// The number of jobs in the verdict, for the next attempt.
fn given_jobs(verdict: &Verdict) -> Option<u32> {
    let given = verdict.next.as_ref()?.build_jobs.as_ref()?;
    u32::try_from(given.value).ok().filter(|&jobs| jobs > 0)
}

/// What to do if the build needs more than this machine has. If memory was short and the need depends on the number of build jobs, the
/// answer is a retry with as many jobs as fit.
fn retry_bigger(verdict: &Verdict, place: &RetryConditions) -> NextStep {
    let needs = format!("it needs a larger place: {}", verdict_reason(verdict));
    if !Cause::of_wire(verdict.cause()).is_some_and(Cause::is_memory) {
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
    // the size in the verdict may be meant for fewer jobs than the failed try had
    let meant = given_jobs(verdict).map_or(had, |jobs| jobs.min(had));
    let fitting = match (place.memory_limit, wanted.map(|size| size.value)) {
        (Some(limit), Some(wanted)) if wanted > limit => {
            u32::try_from(u128::from(meant) * u128::from(limit) / u128::from(wanted)).unwrap_or(meant)
        }
        _ => meant.min(had / 2),
    };
    let why = format!("{}; there is no more memory here, so with fewer jobs", verdict_reason(verdict));
    retry_with_jobs(fitting.clamp(1, had.saturating_sub(1)), place, why)
}

fn retry_with_jobs(jobs: u32, place: &RetryConditions, why: String) -> NextStep {
    match &place.unchangeable {
        Some(fixed) => NextStep::Stop(format!("it should run with -j{jobs}, but {fixed}")),
        None => NextStep::Again { jobs: Some(jobs), wait: Duration::ZERO, why },
    }
}

fn verdict_reason(verdict: &Verdict) -> String {
    clean(&verdict.reason)
}

#[cfg(test)]
mod tests;
