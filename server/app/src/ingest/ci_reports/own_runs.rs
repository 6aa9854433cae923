//! Finds the run to which a report applies. A report names a job, which may have several runs:
//! `ID`, `ID.2` and so on. GitLab reports the end of a job once, so the report applies to the
//! newest run. Attempts of other projects may have the job's id, because ids can be guessed; they
//! are skipped.

use plimsoll_core::domain::{AttemptId, ReportedOutcome, Reporter};
use plimsoll_proto::job;
use plimsoll_store as store;

use super::applying::CiReports;
use crate::ingest::table::SessionTable;

/// Most runs of other projects that are skipped while looking for the newest run of a job.
const MAX_SKIPPED_RUNS: usize = 10;

/// Which job the attempt with an id belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunOwner {
    /// No attempt has this id, or it cannot be read.
    None,
    /// An attempt of a project on which the reporter may not report; its agent did not prove the
    /// job.
    Others,
    /// An attempt of the reported job.
    Job,
}

impl CiReports {
    /// Replaces each id in a report by the ids of runs under it: first runs of other projects,
    /// which are skipped later, then the newest run of the job. If the job has no run yet, the last
    /// id is the first free one.
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

    /// The ids of runs under the id `first`: those of other projects, then the job's newest run or
    /// the first free id.
    async fn runs(&self, first: &AttemptId, by: &Reporter, open: &SessionTable) -> Vec<AttemptId> {
        let (mut own, mut others) = (None, Vec::new());
        let later =
            (2..=job::MAX_RUNS).map(|number| AttemptId::parse(&job::run_id(first.as_str(), number)).ok());
        for id in std::iter::once(Some(first.clone())).chain(later).flatten() {
            match self.owner(&id, by, open).await {
                RunOwner::Job => own = Some(id),
                RunOwner::Others if others.len() < MAX_SKIPPED_RUNS => others.push(id),
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
        // a read error is handled later, when the report is applied
        let summary = store::read_summary(&self.store, id).await.ok().flatten();
        summary.map_or(RunOwner::None, |summary| owner(summary.opening.proven, &summary.key.project))
    }
}
