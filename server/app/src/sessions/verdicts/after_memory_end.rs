//! The size with which a job is tried again, for callers that start the next attempt without having asked for a verdict.

use std::sync::PoisonError;

use plimsoll_core::domain::{Action, AttemptId, Cause, JobMark, Key, Prediction, Rung, Verdict};

use crate::sessions::{Ingest, Refusal};

/// What is known for the next attempt of a job whose last one memory ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterMemoryEnd {
    /// What the verdict says.
    pub(crate) next: Prediction,
    /// Why that attempt ended.
    pub(crate) cause: Cause,
    /// It grows from what is predicted: what the last attempt had is not known.
    pub(crate) had_unknown: bool,
}

impl AfterMemoryEnd {
    fn of(verdict: Verdict) -> Option<Self> {
        let Verdict { cause, action, outlook, next, .. } = verdict;
        let had_unknown = cause.is_memory() && action == Action::Bigger && outlook.stopped_at.is_none();
        next.map(|next| Self { next, cause, had_unknown })
    }
}

impl Ingest {
    /// Remembers the job of an attempt that memory ended, as the verdict in force says; forgets one that it did not end after all.
    pub(crate) fn note_verdict(&self, verdict: &Verdict) {
        let mut short = self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner);
        if !verdict.raises_memory() {
            short.forget(&verdict.attempt, &verdict.basis.reported.project);
        }
        short.note(verdict);
    }

    /// What the next attempt of a job should ask for, if memory ended its last one: what the verdict on that attempt says, or would
    /// say if it were asked for. Changes nothing. `None` for a job that did not run before, or ended otherwise.
    pub(crate) async fn again(&self, key: &Key) -> Result<Option<AfterMemoryEnd>, Refusal> {
        let judged = self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).find(key);
        let Some(attempt) = self.ended_by_memory(key).or(judged) else { return Ok(None) };
        self.next_of(attempt, &key.project).await
    }

    /// The size of the next attempt after one that memory ended.
    async fn next_of(&self, attempt: AttemptId, project: &str) -> Result<Option<AfterMemoryEnd>, Refusal> {
        // the one in force stands on all that was said
        let in_force = self.verdicts(&attempt, project).await?.into_iter().next();
        let by_memory = in_force.filter(Verdict::raises_memory);
        match by_memory.and_then(AfterMemoryEnd::of) {
            Some(next) => Ok(Some(next)),
            None => match self.weigh(attempt, project).await {
                Ok(verdict) => Ok(AfterMemoryEnd::of(verdict)),
                // the attempt that has this id turned out to be another project's
                Err(Refusal::Fault(_)) => Ok(None),
                Err(refusal) => Err(refusal),
            },
        }
    }

    /// The last attempt of the same job of the same pipeline, if memory ended it.
    fn ended_by_memory(&self, key: &Key) -> Option<AttemptId> {
        let job = JobMark::of(key)?;
        self.parts.history.read(|history| {
            let mut all = history.on_rung(Rung::Exact, key);
            let last = all.find(|fact| fact.brief.job == Some(job))?;
            let by_memory = last.brief.proven_cause().is_some_and(Cause::is_memory);
            by_memory.then(|| last.brief.attempt.clone())
        })
    }
}
