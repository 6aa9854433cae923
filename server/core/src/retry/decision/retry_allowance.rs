//! Whether the budget, earlier failures and the cost allow the remedy; and the reason if they do not allow it.

use std::fmt::Write as _;

use plimsoll_proto::{figures, reasons::SizeBound};

use crate::domain::{Action, Bytes, Cause, Evidence, Millis, Prediction, Signature};
use crate::retry::{
    cause::finding::Finding,
    decision::policy::{RetryPolicy, RetryTerms, pseudo_random},
    decision::remedy::{Remedy, cause_sentence},
    known::known_failures::RetrySuccess,
};

/// A classified failure, with everything else that the decision depends on.
#[derive(Debug)]
pub(in crate::retry) struct WeighedFailure {
    pub(in crate::retry) finding: Finding,
    pub(in crate::retry) cause: Cause,
    pub(in crate::retry) signature: Option<Signature>,
    /// Number of other attempts with the same failure at the same commit or in the same job.
    pub(in crate::retry) repeated: u32,
    pub(in crate::retry) retry_success: RetrySuccess,
    pub(in crate::retry) terms: RetryTerms,
    /// Number of attempts that count against the budget, including this one.
    pub(in crate::retry) spent_attempts: u32,
    /// Number of retries that the budget still allows.
    pub(in crate::retry) retries_left: u32,
}

impl WeighedFailure {
    /// Whether no better evidence than the log names the cause, and no retry showed that it can pass.
    fn is_unproven(&self) -> bool {
        let passed_again = self.cause == Cause::Flaky && self.finding.cause != Some(Cause::Flaky);
        !self.finding.is_proven() && !passed_again
    }
}

/// Returns the remedy if it is allowed. Otherwise the action is "no", and the rule that forbids the remedy is returned with it.
pub(in crate::retry) fn allow(
    remedy: Remedy,
    failure: &WeighedFailure,
    evidence: &Evidence,
    policy: &RetryPolicy,
) -> (Remedy, Option<String>) {
    if remedy.action == Action::No {
        return (remedy, None);
    }
    let no = |rule: String| (Remedy::no(refusal_words(failure, &rule)), Some(rule));
    if failure.retries_left == 0 {
        let rule = format!("all {} are used up", figures::counted(policy.max_attempts.into(), "attempt"));
        return refuse_used_up(remedy, failure, rule);
    }
    let unproven = failure.is_unproven();
    if unproven && failure.spent_attempts > policy.unproven_retries {
        return no(bound_words(policy.unproven_retries, "without kernel or container evidence"));
    }
    if failure.spent_attempts > failure.terms.retries && failure.terms.counts_in_budget {
        let cause = failure.cause.as_str().replace('_', " ");
        let rule = bound_words(failure.terms.retries, &format!("after {cause}"));
        return refuse_used_up(remedy, failure, rule);
    }
    if unproven && failure.repeated > 0 {
        let times =
            if failure.repeated == 1 { "once".to_owned() } else { format!("{} times", failure.repeated) };
        return no(format!("the same failure was seen {times} before at this commit or in this job"));
    }
    let measured =
        remedy.action == Action::AsIs && failure.retry_success.tried > 0 && failure.terms.counts_in_budget;
    let pays = failure.retry_success.rate() > policy.least_chance;
    if measured && !pays && pseudo_random(&evidence.attempt) >= policy.explore {
        let RetrySuccess { tried, passed } = failure.retry_success;
        return no(format!("only {passed} of {tried} retries of this failure passed"));
    }
    (remedy, None)
}

/// Number of retries that [`allow`] permits after such a failure, including this one. `None` if it is not below what the budget leaves.
pub(in crate::retry) fn allowed_below_budget(failure: &WeighedFailure, policy: &RetryPolicy) -> Option<u32> {
    let unproven = failure.is_unproven();
    let of_unproven = unproven.then_some(policy.unproven_retries);
    let of_cause = failure.terms.counts_in_budget.then_some(failure.terms.retries);
    let retries = of_unproven.into_iter().chain(of_cause).min()?;
    let allowed = retries.saturating_add(1).saturating_sub(failure.spent_attempts);
    (allowed < failure.retries_left).then_some(allowed)
}

/// Describes the policy's limit on retries `of` one kind, as the end of a sentence.
fn bound_words(count: u32, of: &str) -> String {
    let retries = if count == 0 {
        "no retry".to_owned()
    } else {
        figures::counted_as(count.into(), "retry", "retries")
    };
    format!("the policy allows {retries} {of}")
}

/// Refuses the retry, and keeps the next size in the answer, because a person may start the retry by hand.
fn refuse_used_up(remedy: Remedy, failure: &WeighedFailure, rule: String) -> (Remedy, Option<String>) {
    let next = remedy.next;
    let wanted = next.as_ref().and_then(|next| by_hand_words(remedy.action, failure.cause, next));
    let mut reason = refusal_words(failure, &rule);
    if let Some(wanted) = &wanted {
        let _written = write!(reason, "; if you start it by hand, {wanted}");
    }
    (Remedy { next: next.filter(|_| wanted.is_some()), ..Remedy::no(reason) }, Some(rule))
}

fn refusal_words(failure: &WeighedFailure, rule: &str) -> String {
    format!("{}: no retry, because {rule}", cause_sentence(&failure.finding, failure.cause))
}

/// Describes the sizes that a retry by a person needs, if they differ from this attempt's.
fn by_hand_words(action: Action, cause: Cause, next: &Prediction) -> Option<String> {
    let jobs = next.build_jobs.value;
    match action {
        Action::Bigger | Action::FewerJobs if cause.is_memory() => {
            let limit = Bytes(next.memory_limit.value);
            let fewer = matches!(next.build_jobs.basis.bound, SizeBound::RoomIn(_) | SizeBound::HalfOf(..));
            let jobs = if fewer { format!(" and run it with -j{jobs}") } else { String::new() };
            Some(format!("give it a memory limit of {limit}{jobs}"))
        }
        Action::Bigger | Action::FewerJobs => {
            let cores = figures::float(next.cpu_limit.value) / 1000.0;
            Some(format!("give it a CPU limit of {}", figures::cores_named(cores)))
        }
        Action::Longer => Some(format!("allow it {}", Millis(next.wall_p95.value))),
        Action::No | Action::AsIs | Action::Elsewhere => None,
    }
}
