//! The sizes for the next attempt of a job that ran out of memory, for callers that start the
//! attempt without asking for a verdict.

use plimsoll_core::domain::{Action, AttemptId, Cause, JobMark, Key, Prediction, Rung, Verdict};

use super::Verdicts;
use crate::access::{Refusal, Reply};

/// Sizes for the next attempt of a job that ran out of memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterMemoryEnd {
    /// The sizes from the verdict.
    pub(crate) next: Prediction,
    /// Cause of the last attempt's end.
    pub(crate) cause: Cause,
    /// Whether the sizes of the last attempt are unknown; then the new sizes are based on the
    /// prediction.
    pub(crate) had_unknown: bool,
}

impl AfterMemoryEnd {
    fn of(verdict: Verdict) -> Option<Self> {
        let Verdict { cause, action, outlook, next, .. } = verdict;
        let had_unknown = cause.is_memory() && action == Action::Bigger && outlook.stopped_at.is_none();
        next.map(|next| Self { next, cause, had_unknown })
    }
}

impl Verdicts {
    /// Sizes for the next attempt of a job after the last one ran out of memory: from the verdict
    /// on it, which is computed if there is none. Stores nothing. `None` if the job has not run
    /// before, or ended otherwise.
    pub(crate) async fn after_memory_end(&self, key: &Key) -> Reply<Option<AfterMemoryEnd>> {
        let judged = self.parts.classifier.short_of_memory_attempt(key);
        let Some(attempt) = self.ended_by_memory(key).or(judged) else { return Ok(None) };
        self.next_of(attempt, &key.project).await
    }

    /// The sizes for the attempt after `attempt`, which ran out of memory.
    async fn next_of(&self, attempt: AttemptId, project: &str) -> Reply<Option<AfterMemoryEnd>> {
        // the verdict in force is based on all reports
        let in_force = self.given(&attempt, project).await?.into_iter().next();
        let by_memory = in_force.filter(Verdict::raises_memory);
        match by_memory.and_then(AfterMemoryEnd::of) {
            Some(next) => Ok(Some(next)),
            None => match self.weigh(attempt, project).await {
                Ok(verdict) => Ok(AfterMemoryEnd::of(verdict)),
                // the attempt with this id is one of another project
                Err(Refusal::Fault(_)) => Ok(None),
                Err(refusal) => Err(refusal),
            },
        }
    }

    /// The last attempt of the same job in the same pipeline, if it ran out of memory.
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
