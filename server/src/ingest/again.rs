//! The size with which a job is tried again, for whoever starts the next attempt without having asked for a verdict.

use super::{Ingest, Refusal};
use crate::{
    domain::{AttemptId, Cause, Evidence, Key, Prediction, Rung},
    store,
};

/// Answers about one attempt that are read: hardly anybody asks twice.
const ANSWERS: usize = 16;

impl Ingest {
    /// What the next attempt of a job should ask for, if memory ended its last one: what the verdict on that attempt says, or would
    /// say if somebody asked. Changes nothing. `None` for a job that did not run before, or ended otherwise.
    pub(crate) async fn again(&self, key: &Key) -> Result<Option<Prediction>, Refusal> {
        let Some(attempt) = self.ended_by_memory(key) else { return Ok(None) };
        let given = store::read_verdicts(&self.parts.store, &attempt, ANSWERS).await;
        let given = given.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        // who asked with more evidence got the larger size
        let largest = given
            .into_iter()
            .filter(|verdict| verdict.cause.is_memory())
            .filter_map(|verdict| verdict.next)
            .max_by_key(|next| next.memory_limit.value);
        match largest {
            Some(next) => Ok(Some(next)),
            None => Ok(self.weigh(Evidence::about(attempt)).await?.1.next),
        }
    }

    /// The last attempt of the same job of the same pipeline, if memory ended it.
    fn ended_by_memory(&self, key: &Key) -> Option<AttemptId> {
        let job = key.job()?;
        self.parts.learned.read(|history| {
            let mut all = history.on_rung(Rung::Exact, key);
            let last = all.find(|fact| fact.brief.job() == Some(job))?;
            let by_memory = last.brief.cause.is_some_and(Cause::is_memory);
            by_memory.then(|| last.brief.attempt.clone())
        })
    }
}
