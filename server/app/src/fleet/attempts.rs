//! Ended and running attempts, as a caller may see them.

use std::sync::Arc;

use plimsoll_core::domain::{AttemptId, Outcome, Sample, Summary, Verdict};
use tokio::sync::broadcast;

use crate::{
    access::{Refusal, Reply, identity::Identity, redaction::Redactor},
    ingest::{AttemptChange, Ingest, RunningAttempt},
    verdicts::{MeantAttempt, Verdicts},
};

/// Shows attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AttemptService {
    pub(crate) ingest: Ingest,
    pub(crate) verdicts: Verdicts,
}

/// An attempt as the caller may see it.
#[derive(Debug)]
pub(crate) struct ShownAttempt {
    pub(crate) summary: Summary,
    pub(crate) is_running: bool,
    /// Verdicts on the attempt; the first is in force.
    pub(crate) verdicts: Vec<Verdict>,
    /// The last known retry of the attempt, and how it ended.
    pub(crate) retry: Option<(AttemptId, Outcome)>,
}

/// Watches the running attempts, for a caller who may see all of them.
#[derive(Debug)]
pub(crate) struct AttemptWatch {
    ingest: Ingest,
    redactor: Redactor,
}

impl AttemptService {
    /// The attempt with this id, else the only attempt with this id on any host (`HOST:ID`).
    /// Errors: the attempt is unknown or not visible to this caller (both give the same error), or several hosts have an attempt with this
    /// id (the error names them).
    pub(crate) async fn show(&self, caller: &Arc<Identity>, id: &AttemptId) -> Reply<ShownAttempt> {
        let MeantAttempt { id: full, found } = self.verdicts.meant(caller, id).await?;
        let seen = found.filter(|(summary, _running)| caller.sees(&summary.key.project));
        let Some((summary, is_running)) = seen else {
            return Err(Refusal::NotFound(format!("no attempt {id} is known here")));
        };
        let redactor = self.redactor(caller);
        let project = &summary.key.project;
        let verdicts = self.verdicts.given(&full, project).await?;
        let verdicts = verdicts.into_iter().map(|verdict| redactor.verdict(verdict, project)).collect();
        let history = self.ingest.history();
        let retry = history.read(|history| history.last_retry(&summary.attempt));
        let summary = redactor.summary(history.related(&summary).into_owned());
        Ok(ShownAttempt { summary, is_running, verdicts, retry })
    }

    /// Passes the samples of a shown attempt to `take`, in order; returns their number.
    /// Errors: the store cannot be read.
    pub(crate) async fn series(&self, shown: &ShownAttempt, take: impl FnMut(&Sample) + Send) -> Reply<u64> {
        Ok(self.ingest.series(&shown.summary.attempt, take).await?)
    }

    /// The `most` running attempts with the highest memory need among those that the caller may
    /// see, and how many the caller may see in total.
    /// Errors: the writer has stopped.
    pub(crate) async fn highest(
        &self,
        caller: &Arc<Identity>,
        most: usize,
    ) -> Reply<(Vec<RunningAttempt>, usize)> {
        let (running, count) = self.ingest.highest(most, Arc::clone(caller)).await?;
        let redactor = self.redactor(caller);
        Ok((running.into_iter().map(|running| shown(&redactor, running)).collect(), count))
    }

    /// A watch over all running attempts.
    /// Errors: the caller may see only some projects; a watch is over all.
    pub(crate) fn watch(&self, caller: &Arc<Identity>) -> Reply<AttemptWatch> {
        if !caller.projects.is_all() {
            let text =
                format!("Watch shows the attempts of all projects, and {} may see only some", caller.name);
            return Err(Refusal::NotAllowed(text));
        }
        Ok(AttemptWatch { ingest: self.ingest.clone(), redactor: self.redactor(caller) })
    }

    fn redactor(&self, caller: &Arc<Identity>) -> Redactor {
        Redactor { private: Arc::clone(&self.verdicts.private), caller: Arc::clone(caller) }
    }
}

impl AttemptWatch {
    /// All running attempts, and a receiver of the changes from then on.
    /// Errors: the writer has stopped.
    pub(crate) async fn begin(&self) -> Reply<(Vec<RunningAttempt>, broadcast::Receiver<AttemptChange>)> {
        let (running, changes) = self.ingest.watch().await?;
        Ok((running.into_iter().map(|running| self.shown(running)).collect(), changes))
    }

    /// A running attempt from the receiver of changes, without what the caller may not see.
    pub(crate) fn shown(&self, running: RunningAttempt) -> RunningAttempt {
        shown(&self.redactor, running)
    }
}

fn shown(redactor: &Redactor, mut running: RunningAttempt) -> RunningAttempt {
    redactor.attempt(&mut running.attempt);
    running
}
