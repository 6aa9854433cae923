//! A report names a job, which may have several runs: `ID`, `ID.2` and so on. It applies to the newest, because GitLab reports the end of
//! a job once. Attempts of another project may have claimed the job's id, because ids can be guessed: those are skipped.

use plimsoll_core::domain::{AttemptId, ReportedOutcome, Reporter};
use plimsoll_proto::job;
use plimsoll_store as store;

use super::applying::CiReports;
use crate::sessions::table::SessionTable;

/// Runs of other projects that are passed over.
const RUNS_PASSED_OVER: usize = 10;

/// The attempt with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunOwner {
    /// No attempt has this id, or it cannot be read.
    None,
    /// An attempt that the reporter may not report on, whose agent did not prove the job.
    Others,
    /// An attempt of the job.
    Job,
}

impl CiReports {
    /// Redirects the report from the first to the newest run of its job, and past runs of other projects. If the job has no run yet, the
    /// report keeps the first free id.
    pub(super) async fn with_own_runs(
        &self,
        mut report: ReportedOutcome,
        open: &SessionTable,
    ) -> ReportedOutcome {
        for first in std::mem::take(&mut report.attempts) {
            report.attempts.extend(self.runs(&first, &report.by, open).await);
        }
        report
    }

    /// Runs of other projects under the id `first`, then the newest one of the job.
    async fn runs(&self, first: &AttemptId, by: &Reporter, open: &SessionTable) -> Vec<AttemptId> {
        let (mut own, mut others) = (None, Vec::new());
        let later = (2..=job::RUNS).map(|number| AttemptId::parse(&job::run_id(first.as_str(), number)).ok());
        for id in std::iter::once(Some(first.clone())).chain(later).flatten() {
            match self.owner(&id, by, open).await {
                RunOwner::Job => own = Some(id),
                RunOwner::Others if others.len() < RUNS_PASSED_OVER => others.push(id),
                RunOwner::Others => break,
                RunOwner::None => {
                    own = own.or(Some(id));
                    break;
                }
            }
        }
        others.extend(own);
        others
    }

    async fn owner(&self, id: &AttemptId, by: &Reporter, open: &SessionTable) -> RunOwner {
        let owner = |is_proven: bool, project: &str| {
            if is_proven || by.may_report_on(project) { RunOwner::Job } else { RunOwner::Others }
        };
        if let Some(open) = open.get(id) {
            return owner(open.attempt.opening.proven, &open.attempt.key.project);
        }
        // read errors are handled where the report is applied
        let summary = store::read_summary(&self.store, id).await.ok().flatten();
        summary.map_or(RunOwner::None, |summary| owner(summary.opening.proven, &summary.key.project))
    }
}
