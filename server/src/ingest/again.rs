//! The size with which a job is tried again, for whoever starts the next attempt without having asked for a verdict.

use std::{
    collections::{HashMap, VecDeque},
    sync::PoisonError,
};

use super::{Ingest, Refusal};
use crate::{
    domain::{AttemptId, Cause, Evidence, Key, Prediction, Rung, Verdict},
    store,
};

/// Jobs whose last verdict is remembered: those that memory ended in some days. About 3 MB.
const REMEMBERED: usize = 10_000;

/// Answers about one attempt that are read: hardly anybody asks twice.
const ANSWERS: usize = 16;

/// Project, pipeline and name of a job.
type Job = (String, String, String);

/// Jobs that memory ended by the verdict on one of their attempts, oldest first: no agent need have measured any of them. Not
/// kept over a restart, after which those that were measured are still known.
#[derive(Debug, Default)]
pub(super) struct ShortOfMemory {
    attempts: HashMap<Job, AttemptId>,
    order: VecDeque<Job>,
}

impl ShortOfMemory {
    fn note(&mut self, key: &Key, verdict: &Verdict) {
        let Some(job) = job_of(key).filter(|_| verdict.cause.is_memory()) else { return };
        if self.attempts.insert(job.clone(), verdict.attempt.clone()).is_none() {
            self.order.push_back(job);
        }
        while self.order.len() > REMEMBERED {
            let Some(oldest) = self.order.pop_front() else { break };
            self.attempts.remove(&oldest);
        }
    }

    fn find(&self, key: &Key) -> Option<AttemptId> {
        self.attempts.get(&job_of(key)?).cloned()
    }
}

fn job_of(key: &Key) -> Option<Job> {
    let (pipeline, job) = key.job()?;
    Some((key.project.clone(), pipeline.to_owned(), job.to_owned()))
}

impl Ingest {
    /// Remembers the job of an attempt that memory ended, as a verdict says.
    pub(super) fn note_verdict(&self, key: &Key, verdict: &Verdict) {
        self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).note(key, verdict);
    }

    /// What the next attempt of a job should ask for, if memory ended its last one: what the verdict on that attempt says, or would
    /// say if somebody asked. Changes nothing. `None` for a job that did not run before, or ended otherwise.
    pub(crate) async fn again(&self, key: &Key) -> Result<Option<Prediction>, Refusal> {
        let judged = self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).find(key);
        let Some(attempt) = self.ended_by_memory(key).or(judged) else { return Ok(None) };
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
