//! Attempts, ended and running, as a caller may see them.

use std::sync::Arc;

use plimsoll_core::domain::{AttemptId, Sample, Summary, Verdict};
use tokio::sync::broadcast;

use super::{Refusal, attempt_names::AttemptNames, redaction::Redactor};
use crate::{
    access::{identity::Identity, privacy::Private},
    sessions::{Change, Ingest, Running},
};

/// Shows attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AttemptService {
    pub(crate) ingest: Ingest,
    pub(crate) private: Arc<Private>,
}

/// An attempt as its caller may see it.
#[derive(Debug)]
pub(crate) struct ShownAttempt {
    pub(crate) summary: Summary,
    pub(crate) is_running: bool,
    /// The one in force first.
    pub(crate) verdicts: Vec<Verdict>,
}

/// The attempts that run, for a caller who may see all of them.
#[derive(Debug)]
pub(crate) struct AttemptWatch {
    ingest: Ingest,
    redactor: Redactor,
}

impl AttemptService {
    /// What is known of an attempt: of the one with this id, else of the only one that a host named so (`HOST:ID`).
    ///
    /// # Errors
    /// It is not known, or not for this caller: both look the same. Several hosts named one so: names them.
    pub(crate) async fn show(&self, caller: &Arc<Identity>, id: &AttemptId) -> Result<ShownAttempt, Refusal> {
        let full = AttemptNames { ingest: &self.ingest, caller }.full(id).await?;
        let shown = self.show_named(caller, &full).await?;
        shown.ok_or_else(|| Refusal::NotFound(format!("no attempt {id} is known here")))
    }

    /// The attempt with exactly this id, if the caller may see it.
    async fn show_named(
        &self,
        caller: &Arc<Identity>,
        id: &AttemptId,
    ) -> Result<Option<ShownAttempt>, Refusal> {
        let found = self.ingest.find(id).await?;
        let seen = found.filter(|(summary, _)| caller.may_see("attempt", &summary.key.project).is_ok());
        let Some((summary, is_running)) = seen else { return Ok(None) };
        let redactor = self.redactor(caller);
        let project = &summary.key.project;
        let verdicts = self.ingest.verdicts(id, project).await?;
        let verdicts = verdicts.into_iter().map(|verdict| redactor.verdict(verdict, project)).collect();
        let summary = redactor.summary(self.ingest.related(&summary).into_owned());
        Ok(Some(ShownAttempt { summary, is_running, verdicts }))
    }

    /// Hands the samples of an attempt that was shown to `take`, in order; gives how many there are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn series(
        &self,
        shown: &ShownAttempt,
        take: impl FnMut(&Sample) + Send,
    ) -> Result<u64, Refusal> {
        Ok(self.ingest.series(&shown.summary.attempt, take).await?)
    }

    /// The `most` running attempts with the highest need among those that the caller may see; and how many those are.
    ///
    /// # Errors
    /// The writer has stopped.
    pub(crate) async fn highest(
        &self,
        caller: &Arc<Identity>,
        most: usize,
    ) -> Result<(Vec<Running>, usize), Refusal> {
        let (running, count) = self.ingest.highest(most, Arc::clone(caller)).await?;
        let redactor = self.redactor(caller);
        Ok((running.into_iter().map(|running| redactor.running(running)).collect(), count))
    }

    /// A watch over all running attempts.
    ///
    /// # Errors
    /// The caller may see only some projects.
    pub(crate) fn watch(&self, caller: &Arc<Identity>) -> Result<AttemptWatch, Refusal> {
        if !caller.projects.is_all() {
            let text =
                format!("Watch shows the attempts of all projects, and {} may see only some", caller.name);
            return Err(Refusal::NotAllowed(text));
        }
        Ok(AttemptWatch { ingest: self.ingest.clone(), redactor: self.redactor(caller) })
    }

    fn redactor(&self, caller: &Arc<Identity>) -> Redactor {
        Redactor { private: Arc::clone(&self.private), caller: Arc::clone(caller) }
    }
}

impl AttemptWatch {
    /// All attempts that run, and the changes from then on.
    ///
    /// # Errors
    /// The writer has stopped.
    pub(crate) async fn begin(&self) -> Result<(Vec<Running>, broadcast::Receiver<Change>), Refusal> {
        let (running, changes) = self.ingest.watch().await?;
        Ok((running.into_iter().map(|running| self.redactor.running(running)).collect(), changes))
    }

    /// What runs of a change, as the caller may see it.
    pub(crate) fn shown(&self, running: Running) -> Running {
        self.redactor.running(running)
    }
}
