//! The remedy for a cause, before the budget: the action, the next sizes, and the sentence that explains them.
//!
//! | module | what it decides |
//! |---|---|
//! | `sizes` | the sizes that the attempt had, with which every remedy begins |
//! | `memory` | a retry with more memory |
//! | `fewer_jobs` | a retry with fewer build jobs, where there is no more memory |
//! | `cpu` | a retry with more CPU |
//! | `request` | a retry with a larger memory request after an eviction |
//! | `time` | a retry with more time |
//! | `words` | the sentences about the cause and the sizes |
//!
//! No retry, one on another machine and one without a change need no sizes, so they are decided here.

mod cpu;
mod fewer_jobs;
mod memory;
mod request;
mod sizes;
mod time;
mod words;

use std::fmt::Display;

pub(in crate::retry) use self::{cpu::throttled_clue, sizes::as_its_pod, words::cause_sentence};
use crate::domain::{Action, Bytes, Cause, Evidence, Key, Prediction, Summary};
use crate::retry::{VerdictInputs, cause::finding::Finding};

/// Action and next sizes, before the budget is checked.
#[derive(Debug)]
pub(in crate::retry) struct Remedy {
    pub(in crate::retry) action: Action,
    pub(in crate::retry) next: Option<Prediction>,
    pub(in crate::retry) reason: String,
    /// The size at which memory stopped the attempt, if it is known and the next attempt gets more.
    pub(in crate::retry) stopped_at: Option<Bytes>,
}

impl Remedy {
    /// No retry.
    pub(in crate::retry) fn no(reason: String) -> Self {
        Self { action: Action::No, next: None, reason, stopped_at: None }
    }
}

/// A classified failure, and what its remedy depends on.
#[derive(Clone, Copy)]
pub(in crate::retry) struct RemedyCase<'a> {
    pub(in crate::retry) evidence: &'a Evidence,
    pub(in crate::retry) finding: &'a Finding,
    pub(in crate::retry) cause: Cause,
    /// The prediction for the attempt, or the sizes of its pod.
    pub(in crate::retry) predicted: &'a Prediction,
    /// The prediction for a first attempt of the build now. It includes this failure; a retry gets at least its sizes.
    pub(in crate::retry) first: &'a Prediction,
    pub(in crate::retry) known: VerdictInputs<'a>,
}

impl<'a> RemedyCase<'a> {
    fn measured(&self) -> Option<&'a Summary> {
        self.evidence.measured.as_deref()
    }

    /// What is built.
    fn key(&self) -> &'a Key {
        self.evidence.known_key()
    }
}

/// A retry with the sizes that the attempt had, for an action to change.
struct Draft {
    /// The sentence about the cause, with which the reason begins.
    why: String,
    /// How the sizes compare with those of the attempt, as in "with the same size".
    how: String,
    next: Prediction,
}

impl Draft {
    fn retry(self, action: Action, advice: impl Display) -> Remedy {
        let reason = format!("{}: {advice}", self.why);
        Remedy { action, next: Some(self.next), reason, stopped_at: None }
    }

    /// A retry in which no size has to grow.
    fn unchanged(self, cause: Cause) -> Remedy {
        let advice = same_size_advice(cause, &self.how);
        self.retry(Action::AsIs, advice)
    }

    fn no(self, advice: impl Display) -> Remedy {
        Remedy::no(format!("{}: {advice}", self.why))
    }
}

/// Chooses the remedy for a cause.
pub(in crate::retry) fn remedy(case: RemedyCase<'_>) -> Remedy {
    let mut remedy = sized_remedy(case);
    if let Some(next) = &mut remedy.next {
        words::explain(next, case);
    }
    remedy
}

fn sized_remedy(case: RemedyCase<'_>) -> Remedy {
    let (cause, measured) = (case.cause, case.measured());
    let next = sizes::unchanged(case.predicted, measured, case.known.settings);
    let draft =
        Draft { why: cause_sentence(case.finding, cause), how: words::how_it_was(&next, measured), next };
    if cause.is_final() && case.known.policy.terms(case.key(), cause).retries > 0 {
        return draft.retry(Action::AsIs, "retry all the same, as the retry policy asks");
    }
    match cause {
        Cause::Oom | Cause::Starved => memory::remedy(case, draft),
        Cause::Timeout if !measured.is_some_and(time::used_almost_no_cpu) => time::remedy(case, draft),
        Cause::Contention => cpu::remedy(case, draft),
        Cause::EvictedByNode if case.finding.is_proven() => request::remedy(case, draft),
        Cause::DiskFull | Cause::EphemeralStorage => {
            draft.retry(Action::Elsewhere, "retry on a machine with more free disk")
        }
        Cause::Infra if measured.is_some_and(Summary::was_killed_by_host) => {
            let advice = format!("retry on another machine, {}", draft.how);
            draft.retry(Action::Elsewhere, advice)
        }
        Cause::Infra if case.finding.own_failure.is_some() => draft.unchanged(Cause::Undecided),
        cause if cause.is_final() => draft.no(no_retry_reason(cause)),
        cause => draft.unchanged(cause),
    }
}

/// Text that says why a retry is useless while the fault persists, or what has to be done first.
fn no_retry_reason(cause: Cause) -> &'static str {
    match cause {
        Cause::ToolOom => "raise that limit; more memory for the job alone does not help",
        Cause::Configuration => "change the set-up first, a retry would fail in the same way",
        Cause::Canceled => "no retry is wanted",
        _ => "a retry would fail in the same way",
    }
}

/// The advice for a retry in which no size has to grow.
fn same_size_advice(cause: Cause, how: &str) -> String {
    match cause {
        Cause::Timeout => {
            "it used almost no CPU, so more time would not help; retry with the same time".to_owned()
        }
        Cause::Infra | Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode => {
            format!("the build is not at fault, so retry {how}")
        }
        Cause::Unknown => format!("the retry policy allows another attempt {how}"),
        _ => format!("retry {how}"),
    }
}
