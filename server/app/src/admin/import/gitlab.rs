//! Adds data from GitLab to builds from Prometheus: which job a pod ran, how the job ended, and who
//! triggered it.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow};
use plimsoll_core::domain::{Outcome, ReportedOutcome, Reporter, Summary};
use plimsoll_lab::import::prometheus::{JobEnd, ListedJobs, TimeRange};
use plimsoll_proto::figures::counted;

use crate::{
    admin::{print_note, progress},
    ci::gitlab::{GitlabClient, ListFailure, PaceTerms, list_jobs},
    ingest::ci_outcomes,
    runtime::{metrics::Metrics, outgoing::OversizedAnswer, settings::Config},
};

/// The jobs of these projects, and the host of their GitLab; `None` if no GitLab is configured.
/// Errors: the token cannot be read, GitLab does not answer, or there are too many jobs.
pub(super) async fn jobs_of_projects(
    config: &Config,
    projects: &BTreeSet<u64>,
    range: TimeRange,
) -> anyhow::Result<Option<(ListedJobs, String)>> {
    let metrics = std::sync::Arc::new(Metrics::new());
    let Some(client) = GitlabClient::open(&config.gitlab, PaceTerms::default(), metrics)? else {
        return Ok(None);
    };
    let url = config.gitlab.url.as_ref().map_or_else(String::new, ToString::to_string);
    let listed = list_jobs(&client, projects, range, progress::shares("reading GitLab")).await;
    let unlisted = |error: ListFailure| {
        let text = format!("{error}; nothing was stored");
        if matches!(error, ListFailure::TooLarge) { OversizedAnswer(text).into() } else { anyhow!(text) }
    };
    let (jobs, hidden) = listed.map_err(unlisted).context(url.clone())?;
    if !hidden.is_empty() {
        let numbers: Vec<String> = hidden.iter().take(10).map(ToString::to_string).collect();
        print_note(format_args!(
            "{url} does not show the jobs of {} (number {}{}): the token needs the scope read_api, and its user must see the project",
            counted(hidden.len() as u64, "project"),
            numbers.join(", "),
            if hidden.len() > numbers.len() { ", ..." } else { "" },
        ));
    }
    let host = config.gitlab.url.as_ref().map_or_else(String::new, |url| url.host().to_owned());
    Ok(Some((jobs, host)))
}

/// The build with the outcome of its GitLab job.
pub(super) fn with_end(seen: Summary, end: &JobEnd) -> Summary {
    let reported = ReportedOutcome {
        attempts: Vec::new(),
        end: end.status,
        reason: end.reason.clone(),
        cause: None,
        unneeded: false,
        by: Reporter::server(),
    };
    // Prometheus does not know how a build ended, so the outcome is unknown before GitLab's is
    // applied
    let open = Summary { outcome: Outcome::Lost, ..seen };
    ci_outcomes::with_report(&open, &reported).unwrap_or(open)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Cause, EvidenceSource, JobStatus, MeasurementSource, test_summary};

    use super::*;

    fn ended(seen: Summary, status: JobStatus, reason: &str) -> (Outcome, Option<Cause>, bool) {
        let ended = with_end(seen, &JobEnd { status, reason: reason.to_owned() });
        (ended.outcome, ended.cause, ended.censored)
    }

    #[test]
    fn gitlab_decides_the_outcome_and_prometheus_the_kill() {
        let seen = || Summary {
            source: MeasurementSource::Prometheus,
            exit: None,
            ..test_summary("7", "zlib", "1", 100)
        };
        let killed = || Summary {
            outcome: Outcome::Failed,
            cause: Some(Cause::Oom),
            cause_source: Some(EvidenceSource::Kernel),
            censored: true,
            ..seen()
        };
        assert_eq!(ended(seen(), JobStatus::Succeeded, ""), (Outcome::Succeeded, None, false));
        // make went on after a compiler was killed, and tried it again
        assert_eq!(ended(killed(), JobStatus::Succeeded, ""), (Outcome::Succeeded, None, false));
        let script = "script_failure";
        assert_eq!(ended(killed(), JobStatus::Failed, script), (Outcome::Failed, Some(Cause::Oom), true));
        assert_eq!(ended(seen(), JobStatus::Failed, "job_execution_timeout").1, Some(Cause::Timeout));
        assert_eq!(ended(seen(), JobStatus::Failed, script), (Outcome::Failed, Some(Cause::Unknown), false));
        assert_eq!(ended(seen(), JobStatus::Canceled, ""), (Outcome::Failed, Some(Cause::Canceled), false));
    }
}
