//! Writes the cause found by a verdict into the attempt's summary, in the same commit as the
//! verdict, so that it is the attempt's cause everywhere.
//!
//! | the cause comes from | changes |
//! |---|---|
//! | a counter, a reason of cluster or CI system, or an exit, reported by a trusted caller | the cause, and whether the need is a lower bound |
//! | a log line, or an untrusted job that reports on itself | only the cause that is shown, filtered and counted |
//! | nothing (`unknown`) | nothing: a known cause stays |
//! | a person's correction | only the cause: measurements stay, also whether the need is a lower bound |
//! | an undone correction | the cause: what the rules find, else the one before the correction |
//!
//! An attempt with a verdict from before its end gets the cause when it is sealed, from all
//! evidence known then.

use std::sync::Arc;

use plimsoll_core::{
    domain::{AttemptId, Cause, Evidence, EvidenceSource, Outcome, Summary, Verdict, VerdictCorrection},
    retry,
};
use plimsoll_store::{self as store, Store, StoreError};

use crate::{causes::FailureClassifier, runtime::audit::AUDIT};

/// A summary with a changed cause.
#[derive(Debug)]
pub(crate) struct CauseChange {
    pub(crate) before: Summary,
    pub(crate) summary: Summary,
}

/// The summary with this cause; `None` if it has this cause already, or the attempt did not fail.
pub(crate) fn with_cause(
    summary: &Summary,
    (cause, source): (Cause, Option<EvidenceSource>),
    is_trusted: bool,
) -> Option<Summary> {
    let is_news = (summary.cause, summary.cause_source) != (Some(cause), source);
    let by_person = source == Some(EvidenceSource::Person);
    if summary.outcome == Outcome::Succeeded || cause == Cause::Unknown || !is_news {
        return None;
    }
    let mut changed = Summary { cause: Some(cause), cause_source: source, ..summary.clone() };
    if is_trusted && !changed.is_cause_by_log() && !by_person {
        changed.censored = retry::is_censored(&changed, changed.cause);
    }
    Some(changed)
}

/// The summary after a verdict with a correction. The cause is the person's; whether the measured
/// need is a lower bound follows from the cause that the rules found.
fn with_correction(summary: &Summary, verdict: &Verdict, correction: &VerdictCorrection) -> Option<Summary> {
    let (cause, source) = if correction.undone && verdict.cause == Cause::Unknown {
        (correction.before.unwrap_or(Cause::Unknown), correction.before_source)
    } else {
        found(verdict)
    };
    if summary.outcome == Outcome::Succeeded {
        return None;
    }
    let by_rules = (correction.found, correction.found_source);
    let measured = with_cause(summary, by_rules, !verdict.basis.by_untrusted && !correction.undone);
    let measured = measured.unwrap_or_else(|| summary.clone());
    let changed = Summary { cause: Some(cause), cause_source: source, ..measured };
    (changed != *summary).then_some(changed)
}

fn found(verdict: &Verdict) -> (Cause, Option<EvidenceSource>) {
    (verdict.cause, verdict.basis.cause_source)
}

/// Sets the cause of an attempt that has verdicts from before its end, from everything known now.
/// Returns whether there were verdicts.
pub(crate) async fn judged_early(
    store: &Store,
    classifier: &FailureClassifier,
    summary: &mut Summary,
) -> bool {
    let project = &summary.key.project;
    let mut given = match store::read_verdicts(store, &summary.attempt).await {
        Ok(given) => given,
        Err(error) => {
            tracing::warn!(attempt = %summary.attempt, %error, "sealed an attempt without the cause from its verdicts");
            return false;
        }
    };
    // only if the attempt proved its job: otherwise the job's own agent may still replace it
    if summary.opening.proven && given.iter().any(|verdict| !verdict.counts_for(project)) {
        drop_of_others(store, &summary.attempt, project).await;
    }
    given.retain(|verdict| verdict.counts_for(project));
    let Some(in_force) = given.last() else { return false };
    let evidence = Evidence {
        key: summary.key.clone(),
        number: summary.number,
        measured: Some(Arc::new(summary.clone())),
        failure_reason: summary.ci_reason.clone(),
        reported: retry::join_reports(&given, true),
        correction: in_force.correction().cloned().map(Box::new),
        ..Evidence::about(summary.attempt.clone())
    };
    let finding = classifier.classify(&evidence);
    if let Some(changed) = finding.by_rules.and_then(|by_rules| with_cause(summary, by_rules, true)) {
        *summary = changed;
    }
    let cause = finding.cause.map(|cause| finding.decided_cause(cause));
    let found = cause.map(|cause| (cause, finding.decided_by));
    if let Some(changed) = found.and_then(|found| with_cause(summary, found, true)) {
        *summary = changed;
    }
    true
}

/// Removes earlier verdicts on an attempt by callers that may not report on its project, which was
/// unknown until now. An error is only logged, because such verdicts are ignored anyway.
async fn drop_of_others(store: &Store, attempt: &AttemptId, project: &str) {
    match store::forget_verdicts_if(store, attempt, |verdict| !verdict.counts_for(project)).await {
        Ok(verdicts) => {
            tracing::warn!(target: AUDIT, %attempt, verdicts, "dropped verdicts of other projects on an attempt that was not known yet");
        }
        Err(error) => {
            tracing::warn!(%attempt, %error, "could not drop verdicts of other projects on an attempt");
        }
    }
}

/// The change of an attempt's summary by a new verdict; `None` if the attempt has not ended, or has
/// this cause already.
pub(crate) async fn change_by_verdict(
    store: &Store,
    verdict: &Verdict,
) -> Result<Option<CauseChange>, StoreError> {
    let is_trusted = !verdict.basis.by_untrusted;
    let change = match &verdict.basis.correction {
        Some(correction) => {
            change_of(store, &verdict.attempt, |summary| with_correction(summary, verdict, correction))
                .await?
        }
        None if verdict.cause == Cause::Unknown => None,
        None => {
            change_of(store, &verdict.attempt, |summary| with_cause(summary, found(verdict), is_trusted))
                .await?
        }
    };
    // the attempt may have ended meanwhile, so it is checked that the verdict counts for its
    // project
    Ok(change.filter(|change| verdict.counts_for(&change.summary.key.project)))
}

/// Applies `with` to the summary of an attempt; `None` if the attempt has not ended, or its summary
/// does not change.
async fn change_of(
    store: &Store,
    attempt: &AttemptId,
    with: impl FnOnce(&Summary) -> Option<Summary>,
) -> Result<Option<CauseChange>, StoreError> {
    let summary = match store::read_summary(store, attempt).await {
        Err(error @ StoreError::Damaged { .. }) => {
            tracing::error!(%attempt, %error, "cannot write the cause into a summary that is damaged");
            None
        }
        read => read?,
    };
    let change = |summary: Summary| {
        let changed = with(&summary)?;
        let before = Summary { phases: Vec::new(), ..summary };
        Some(CauseChange { before, summary: changed })
    };
    Ok(summary.and_then(change))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Exit, test_summary};

    use super::*;

    fn failed() -> Summary {
        let failed = test_summary("a", "zlib", "1", 100);
        Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), cause: Some(Cause::Unknown), ..failed }
    }

    #[test]
    fn log_evidence_sets_the_cause_without_censoring() {
        let oom = |source| with_cause(&failed(), (Cause::Oom, Some(source)), true).unwrap();
        let by_log = oom(EvidenceSource::Log);
        assert_eq!((by_log.cause, by_log.censored), (Some(Cause::Oom), false));
        assert!(by_log.is_cause_by_log());
        assert!(oom(EvidenceSource::Container).censored);
        let untrusted = with_cause(&failed(), (Cause::Oom, Some(EvidenceSource::Container)), false).unwrap();
        assert!(!untrusted.censored, "what a job says of itself does not count for others");
        let again = with_cause(&by_log, (Cause::Oom, Some(EvidenceSource::Log)), true);
        assert_eq!(again, None, "it has this cause");
    }

    #[test]
    fn known_causes_and_successes_are_not_changed() {
        let log = Some(EvidenceSource::Log);
        let fine = Summary { outcome: Outcome::Succeeded, cause: None, ..failed() };
        assert_eq!(with_cause(&fine, (Cause::Infra, log), true), None);
        let known = Summary { cause: Some(Cause::Infra), ..failed() };
        assert_eq!(with_cause(&known, (Cause::Unknown, None), true), None);
    }
}
