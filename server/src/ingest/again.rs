//! The size with which a job is tried again, for whoever starts the next attempt without having asked for a verdict.

use super::{Ingest, Question, Refusal};
use crate::{
    domain::{AttemptId, Cause, Key, Prediction, Rung},
    retry, store,
};

/// Attempts of a key among which those of one job are looked for: more are never tried.
const LOOKED_AT: usize = 32;

impl Ingest {
    /// What the next attempt of a job should ask for, if memory ended its last one: what the verdict on that attempt says, which
    /// is given now if nobody asked for it. `None` for a job that did not run before, or ended otherwise.
    pub(crate) async fn again(&self, key: &Key) -> Result<Option<Prediction>, Refusal> {
        let Some(attempt) = self.ended_by_memory(key) else { return Ok(None) };
        let given = store::read_verdicts(&self.parts.store, &attempt).await;
        let given = given.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        // who asked with more evidence got the larger size
        let largest = given
            .into_iter()
            .filter(|verdict| verdict.cause.is_memory())
            .filter_map(|verdict| verdict.next)
            .max_by_key(|next| next.memory_limit.value);
        match largest {
            Some(next) => Ok(Some(next)),
            None => Ok(self.judge(Question::about(attempt)).await?.next),
        }
    }

    /// The last attempt of the same job of the same pipeline, if memory ended it.
    fn ended_by_memory(&self, key: &Key) -> Option<AttemptId> {
        let job = retry::job(key)?;
        self.parts.learned.read(|history| {
            let mut all = history.on_rung(Rung::Exact, key).take(LOOKED_AT);
            let last = all.find(|fact| retry::job(&fact.summary.key) == Some(job))?;
            let by_memory = last.summary.cause.is_some_and(Cause::is_memory);
            by_memory.then(|| last.summary.attempt.clone())
        })
    }
}

impl Question {
    /// A question by somebody who saw nothing of the attempt.
    fn about(attempt: AttemptId) -> Self {
        Self {
            attempt,
            key: Key::default(),
            number: 0,
            listed: Vec::new(),
            exit: None,
            log_tail: String::new(),
            failure_reason: String::new(),
            container_reason: String::new(),
            pod_reason: String::new(),
        }
    }
}
