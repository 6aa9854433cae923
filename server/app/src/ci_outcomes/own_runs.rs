//! A report names a job. An attempt of another project may have the job's id, because ids can be guessed: then the job's own attempt is a later
//! run under that id (`ID.2`), and the report is about that one.

use plimsoll_core::domain::{AttemptId, ReportedOutcome, Reporter};
use plimsoll_proto::job;
use plimsoll_store as store;

use super::reports::{CiReports, OpenAttempts};

/// Runs of other projects that are passed over.
const PASSED: u32 = 10;

impl CiReports {
    /// The report, also about the runs after those of other projects.
    pub(super) async fn with_own_runs(
        &self,
        mut report: ReportedOutcome,
        open: &mut impl OpenAttempts,
    ) -> ReportedOutcome {
        let asked = std::mem::take(&mut report.attempts);
        for first in asked {
            let mut id = first.clone();
            for number in 2..=PASSED {
                let is_foreign = self.is_of_others(&id, &report.by, open).await;
                report.attempts.push(id);
                let next = AttemptId::parse(&job::run_id(first.as_str(), number));
                match next {
                    Ok(next) if is_foreign => id = next,
                    _ => break,
                }
            }
        }
        report
    }

    /// Whether an attempt has this id of which the reporter may not speak, and whose agent did not prove the job.
    async fn is_of_others(&self, id: &AttemptId, by: &Reporter, open: &mut impl OpenAttempts) -> bool {
        if let Some(open) = open.open_attempt(id) {
            return !open.is_proven && !by.may_speak_of(open.project);
        }
        // what cannot be read is found where the report is applied
        let summary = store::read_summary(&self.store, id).await.ok().flatten();
        summary.is_some_and(|summary| !summary.opening.proven && !by.may_speak_of(&summary.key.project))
    }
}
