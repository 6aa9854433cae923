//! The cause that a verdict found is the cause of its attempt everywhere: it is written into the summary, in the commit of the verdict.
//!
//! | what names the cause | what it changes |
//! |---|---|
//! | a counter, a reason of cluster or CI system, an exit, said by a trusted caller | cause, and whether the need is a lower bound |
//! | a line of a log, or a job that is not trusted and speaks of itself | the cause as it is shown, chosen by and counted |
//! | nothing (`unknown`) | nothing: a cause that is known stays |
//!
//! An attempt that is judged before its end gets the cause when it is sealed, by all that is known then.

use std::sync::Arc;

use super::{
    known_verdicts::{Asker, KnownVerdicts, VERDICTS},
    refusal::Refusal,
    stage::unreadable,
    worker::Worker,
};
use crate::{
    domain::{AttemptId, Cause, Evidence, EvidenceSource, Outcome, Summary, Verdict},
    judging::Judging,
    retry,
    store::{self, Store},
};

/// A summary with another cause than it had.
#[derive(Debug)]
pub(super) struct CauseChange {
    pub(super) before: Option<Cause>,
    pub(super) summary: Summary,
}

/// The summary with a cause that was found; `None` if it has it, or did not fail.
pub(super) fn with_cause(
    summary: &Summary,
    (cause, source): (Cause, Option<EvidenceSource>),
    is_trusted: bool,
) -> Option<Summary> {
    let is_news = (summary.cause, summary.cause_source) != (Some(cause), source);
    if summary.outcome == Outcome::Succeeded || cause == Cause::Unknown || !is_news {
        return None;
    }
    let mut changed = Summary { cause: Some(cause), cause_source: source, ..summary.clone() };
    if is_trusted && !changed.is_cause_by_log() {
        changed.censored = retry::is_censored(&changed, changed.cause);
    }
    Some(changed)
}

/// The cause that a verdict found, and where the evidence for it comes from.
pub(super) fn found(verdict: &Verdict) -> (Cause, Option<EvidenceSource>) {
    let is_new = verdict.basis.evidence.is_some();
    // an earlier release did not note it: what decided stands first among what supports the cause
    let mut supporting = verdict.evidence.iter().filter(|line| line.supports).map(|line| line.source);
    let mut first = || supporting.find(|source| *source != EvidenceSource::Policy);
    let source = if is_new { verdict.basis.cause_source } else { first() };
    (verdict.cause, source)
}

/// The summary of an attempt that was judged before its end, with the cause by all that is known now, and whether there were verdicts.
pub(super) async fn judged_early(store: &Store, judging: &Judging, summary: &mut Summary) -> bool {
    let known = match store::read_verdicts(store, &summary.attempt, VERDICTS).await {
        Ok(given) => KnownVerdicts::of(given, Asker::TRUSTED, &summary.key.project),
        Err(error) => {
            tracing::warn!(attempt = %summary.attempt, %error, "sealed an attempt without what its verdicts say");
            return false;
        }
    };
    if known.in_force().is_none() {
        return false;
    }
    let evidence = Evidence {
        key: summary.key.clone(),
        number: summary.number,
        measured: Some(Arc::new(summary.clone())),
        failure_reason: summary.ci_reason.clone(),
        reported: known.reported(),
        ..Evidence::about(summary.attempt.clone())
    };
    let finding = judging.classify(&evidence);
    let found = finding.cause.map(|cause| (cause, finding.decided_by));
    if let Some(changed) = found.and_then(|found| with_cause(summary, found, true)) {
        *summary = changed;
    }
    true
}

impl Worker {
    /// What a new verdict changes of the summary of its attempt; `None` if that has not ended, or has this cause.
    pub(super) async fn cause_change(&self, verdict: &Verdict) -> Result<Option<CauseChange>, Refusal> {
        self.change_cause(&verdict.attempt, found(verdict), !verdict.basis.by_untrusted).await
    }

    /// The same for a cause alone.
    pub(super) async fn change_cause(
        &self,
        attempt: &AttemptId,
        found: (Cause, Option<EvidenceSource>),
        is_trusted: bool,
    ) -> Result<Option<CauseChange>, Refusal> {
        if found.0 == Cause::Unknown || self.sessions.contains_key(attempt) {
            return Ok(None);
        }
        let summary = match store::read_summary(&self.parts.store, attempt).await {
            Ok(summary) => summary,
            Err(error @ store::StoreError::Damaged { .. }) => {
                tracing::error!(%attempt, %error, "cannot write the cause into a summary that is damaged");
                None
            }
            Err(error) => return Err(unreadable(&error)),
        };
        let change = |summary: Summary| {
            let changed = with_cause(&summary, found, is_trusted)?;
            Some(CauseChange { before: summary.cause, summary: changed })
        };
        Ok(summary.and_then(change))
    }

    /// A summary with another cause is on disk: statistics and metrics move with it.
    pub(super) fn note_cause(&mut self, change: &CauseChange) {
        let CauseChange { before, summary } = change;
        let word = |cause: &Option<Cause>| cause.map_or("none", Cause::as_str);
        let (from, cause) = (word(before), word(&summary.cause));
        let source = summary.cause_source.map_or("", EvidenceSource::as_str);
        tracing::info!(attempt = %summary.attempt, from, cause, source, "a verdict found the cause of an attempt");
        let is_retry = self.parts.learned.is_retry(summary);
        if !self.unsettled.update(summary, &self.parts.metrics, is_retry) && from != cause {
            self.parts.metrics.cause_changed(from, summary, *before);
        }
        self.parts.learned.settle(summary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Exit, test_summary};

    fn failed() -> Summary {
        let failed = test_summary("a", "zlib", "1", 100);
        Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), cause: Some(Cause::Unknown), ..failed }
    }

    #[test]
    fn a_line_of_a_log_names_a_cause_and_proves_no_need() {
        let oom = |source| with_cause(&failed(), (Cause::Oom, Some(source)), true).unwrap();
        let by_log = oom(EvidenceSource::Log);
        assert_eq!((by_log.cause, by_log.censored), (Some(Cause::Oom), false));
        assert!(by_log.is_cause_by_log());
        assert!(oom(EvidenceSource::Container).censored);
        let untrusted = with_cause(&failed(), (Cause::Oom, Some(EvidenceSource::Container)), false).unwrap();
        assert!(!untrusted.censored, "nobody else learns from what a job says of itself");
        let again = with_cause(&by_log, (Cause::Oom, Some(EvidenceSource::Log)), true);
        assert_eq!(again, None, "it has this cause");
    }

    #[test]
    fn what_succeeded_has_no_cause_and_a_cause_that_is_known_is_not_undone() {
        let log = Some(EvidenceSource::Log);
        let fine = Summary { outcome: Outcome::Succeeded, cause: None, ..failed() };
        assert_eq!(with_cause(&fine, (Cause::Infra, log), true), None);
        let known = Summary { cause: Some(Cause::Infra), ..failed() };
        assert_eq!(with_cause(&known, (Cause::Unknown, None), true), None);
    }
}
