//! Applies the CI system's report on the end of a job to its attempt, if the agent did not observe the end: an agent in another container
//! has no exit status, and an agent that died with its pod reports nothing.
//!
//! | the attempt | then |
//! |---|---|
//! | ended, and the end was not observed | its summary is rewritten with outcome and cause, also in the history |
//! | ended, and the end was observed | nothing: the observation takes precedence, and so does the first report |
//! | found its work done already | its summary is rewritten with this mark, and does not count for predictions |
//! | is open | the report is kept with it until its end |
//! | is unknown | the report is kept in memory, within bounds, until the attempt opens |
//! | is of a project that the reporter may not report on | nothing; the report is kept while the job's own agent may still take the id |

use std::sync::Arc;

use plimsoll_core::{
    domain::{Cause, Evidence, EvidenceSource, JobStatus, Outcome, ReportedOutcome, Summary},
    mask, retry,
};

/// The summary with the reported outcome. `None` if the outcome is known already and the report
/// adds nothing. The exit status stays unknown, because it was not reported.
pub(crate) fn with_report(summary: &Summary, reported: &ReportedOutcome) -> Option<Summary> {
    if !summary.outcome.is_unknown() || summary.exit.is_some() {
        let is_news = reported.unneeded && !summary.unneeded;
        return is_news.then(|| Summary { unneeded: true, ..summary.clone() });
    }
    let outcome = if reported.end == JobStatus::Succeeded { Outcome::Succeeded } else { Outcome::Failed };
    let unneeded = reported.unneeded;
    let none = Summary { cause: None, cause_source: None, censored: false, ..summary.clone() };
    let mut changed = Summary { outcome, unneeded, ..none };
    if outcome == Outcome::Succeeded {
        return Some(changed);
    }
    let reason = if reported.end == JobStatus::Canceled { "canceled" } else { reported.reason.as_str() };
    let evidence = Evidence {
        key: changed.key.clone(),
        number: changed.number,
        measured: Some(Arc::new(changed.clone())),
        failure_reason: reason.to_owned(),
        ..Evidence::about(changed.attempt.clone())
    };
    // the built-in rules suffice, because there is no log to match
    let found = retry::classify(&evidence, &retry::LogRules::built_in());
    (changed.cause, changed.cause_source) = match reported.cause {
        Some(cause) => (Some(cause), summary.cause_source.filter(|_| summary.cause == Some(cause))),
        None => stronger_cause((found.cause, found.decided_by), (summary.cause, summary.cause_source)),
    };
    changed.ci_reason = mask::text(reason).into_owned();
    changed.censored = retry::is_censored(&changed, changed.cause);
    if summary.cause_source == Some(EvidenceSource::Person) {
        (changed.cause, changed.cause_source) = (summary.cause, summary.cause_source);
    }
    Some(changed)
}

/// A cause, and the source of its evidence.
type CauseWithSource = (Option<Cause>, Option<EvidenceSource>);

/// The reported cause; the earlier cause if a verdict found it by stronger evidence, or if the
/// report has none.
fn stronger_cause(reported: CauseWithSource, before: CauseWithSource) -> CauseWithSource {
    let is_stronger = |before: EvidenceSource| {
        before != EvidenceSource::Person && reported.1.is_none_or(|reported| before < reported)
    };
    if before.1.is_some_and(is_stronger) { before } else { reported }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Exit, test_report, test_summary};

    use super::*;

    fn reported(end: JobStatus, reason: &str) -> ReportedOutcome {
        ReportedOutcome { reason: reason.to_owned(), ..test_report("a", end) }
    }

    fn lost() -> Summary {
        let lost = test_summary("a", "zlib", "1", 100);
        Summary { outcome: Outcome::Lost, exit: None, cause: Some(Cause::Unknown), ..lost }
    }

    #[test]
    fn a_report_sets_outcome_and_cause_without_exit() {
        let outcome = |end, reason| {
            let changed = with_report(&lost(), &reported(end, reason)).unwrap();
            (changed.outcome, changed.cause, changed.exit)
        };
        assert_eq!(outcome(JobStatus::Succeeded, ""), (Outcome::Succeeded, None, None));
        let failed = |cause| (Outcome::Failed, Some(cause), None);
        assert_eq!(outcome(JobStatus::Canceled, ""), failed(Cause::Canceled));
        assert_eq!(outcome(JobStatus::Failed, "job_execution_timeout"), failed(Cause::Timeout));
        assert_eq!(outcome(JobStatus::Failed, "scheduler_failure"), failed(Cause::Infra));
        assert_eq!(outcome(JobStatus::Failed, "of_2030"), failed(Cause::Unknown));
    }

    #[test]
    fn counters_of_the_kernel_say_more_than_gitlab() {
        let limit = Some(plimsoll_core::domain::Bytes(100 << 20));
        let mut killed = Summary { oom_kill: Some(1), censored: true, ..lost() };
        killed.resources.memory_limit = limit;
        let changed = with_report(&killed, &reported(JobStatus::Failed, "script_failure")).unwrap();
        assert_eq!((changed.cause, changed.censored), (Some(Cause::Oom), true));
    }

    #[test]
    fn what_was_seen_is_not_changed() {
        let seen = test_summary("a", "zlib", "1", 100);
        assert_eq!(with_report(&seen, &reported(JobStatus::Failed, "")), None);
        let failed = Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), ..seen };
        assert_eq!(with_report(&failed, &reported(JobStatus::Succeeded, "")), None);
    }

    #[test]
    fn unneeded_builds_do_not_affect_predictions() {
        let reported = ReportedOutcome { unneeded: true, ..reported(JobStatus::Succeeded, "") };
        let seen = test_summary("a", "zlib", "1", 100);
        assert_eq!((seen.outcome, seen.counts_for_memory()), (Outcome::Succeeded, true));
        for summary in [seen, lost()] {
            let changed = with_report(&summary, &reported).unwrap();
            assert_eq!((changed.outcome, changed.unneeded), (Outcome::Succeeded, true));
            assert!(!changed.counts_for_memory());
            assert!(plimsoll_core::domain::RungObservation::from(&changed).need.is_nan());
            assert_eq!(with_report(&changed, &reported), None, "reported once");
        }
    }

    #[test]
    fn a_verdicts_cause_overrides_the_reported_reason() {
        let reported = ReportedOutcome {
            cause: Some(Cause::Oom),
            ..reported(JobStatus::Failed, "runner_system_failure")
        };
        let changed = with_report(&lost(), &reported).unwrap();
        assert_eq!((changed.cause, changed.censored), (Some(Cause::Oom), true));
    }
}
