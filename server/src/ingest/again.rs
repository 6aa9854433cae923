//! The size with which a job is tried again, for whoever starts the next attempt without having asked for a verdict.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use super::{Ingest, Refusal};
use crate::domain::{AttemptId, Cause, JobMark, JobName, Key, Prediction, Resources, Rung, Verdict};

/// Jobs whose last verdict is remembered: those that memory ended in some days. About 3 MB.
const REMEMBERED: usize = 10_000;

/// Jobs that memory ended by the verdict on one of their attempts, oldest first: no agent need have measured any of them. A start
/// reads them from the verdicts on disk.
#[derive(Debug, Default)]
pub(super) struct ShortOfMemory {
    attempts: HashMap<JobName, AttemptId>,
    order: VecDeque<JobName>,
}

impl ShortOfMemory {
    /// Notes the job of a verdict that names one.
    pub(super) fn note(&mut self, verdict: &Verdict) {
        let Some(job) = verdict.job.clone().filter(|_| verdict.cause.is_memory()) else { return };
        if self.attempts.insert(job.clone(), verdict.attempt.clone()).is_none() {
            self.order.push_back(job);
        }
        while self.order.len() > REMEMBERED {
            let Some(oldest) = self.order.pop_front() else { break };
            self.attempts.remove(&oldest);
        }
    }

    /// Forgets an attempt, as a verdict in the name of this project says: memory did not end it. Jobs of other projects stay.
    pub(super) fn forget(&mut self, attempt: &AttemptId, project: &str) {
        let is_meant = |job: &JobName, noted: &AttemptId| {
            noted == attempt && (project.is_empty() || job.project == project)
        };
        if !self.attempts.iter().any(|(job, noted)| is_meant(job, noted)) {
            return;
        }
        self.attempts.retain(|job, noted| !is_meant(job, noted));
        let Self { attempts, order } = self;
        order.retain(|job| attempts.contains_key(job));
    }

    fn find(&self, key: &Key) -> Option<AttemptId> {
        self.attempts.get(&JobName::of(key)?).cloned()
    }
}

/// What is known for the next attempt of a job whose last one memory ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterMemoryEnd {
    /// What the verdict says.
    pub(crate) next: Prediction,
    /// What the last attempt had; `None` if its pod was not seen.
    pub(crate) had: Option<Resources>,
}

/// The newest verdicts that name a job, out of many that come in any order, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct NewestShort(Vec<Verdict>);

impl NewestShort {
    /// Keeps a verdict that names a job, without what is large.
    pub(super) fn take(&mut self, verdict: &Verdict) {
        if verdict.job.is_none() {
            return;
        }
        let none = Verdict { evidence: Vec::new(), next: None, reason: String::new(), ..verdict.clone() };
        self.0.push(none);
        if self.0.len() >= 2 * REMEMBERED {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.0.sort_by_key(|verdict| Reverse(verdict.given_unix_ms));
        self.0.truncate(REMEMBERED);
    }

    /// Notes them, the oldest first.
    pub(super) fn note_all(mut self, short: &Mutex<ShortOfMemory>) {
        self.cut();
        let mut short = short.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.iter().rev().for_each(|verdict| short.note(verdict));
    }
}

impl Ingest {
    /// Remembers the job of an attempt that memory ended, as the verdict in force says; forgets one that it did not end after all.
    pub(super) fn note_verdict(&self, verdict: &Verdict) {
        let mut short = self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner);
        if !verdict.cause.is_memory() {
            short.forget(&verdict.attempt, &verdict.basis.reported.project);
        }
        short.note(verdict);
    }

    /// What the next attempt of a job should ask for, if memory ended its last one: what the verdict on that attempt says, or would
    /// say if somebody asked, and what that attempt had, if its pod was seen. Changes nothing. `None` for a job that did not run before, or
    /// ended otherwise.
    pub(crate) async fn again(&self, key: &Key) -> Result<Option<AfterMemoryEnd>, Refusal> {
        let judged = self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).find(key);
        let Some(attempt) = self.ended_by_memory(key).or(judged) else { return Ok(None) };
        let had = self.parts.pods.of(&attempt, &key.project);
        let next = self.next_of(attempt, &key.project).await?;
        Ok(next.map(|next| AfterMemoryEnd { next, had }))
    }

    /// The size of the next attempt after one that memory ended.
    async fn next_of(&self, attempt: AttemptId, project: &str) -> Result<Option<Prediction>, Refusal> {
        // the one in force stands on all that was said
        let in_force = self.verdicts(&attempt, project).await?.into_iter().next();
        let by_memory = in_force.filter(|verdict| verdict.cause.is_memory());
        match by_memory.and_then(|verdict| verdict.next) {
            Some(next) => Ok(Some(next)),
            None => Ok(self.weigh(attempt).await?.next),
        }
    }

    /// The last attempt of the same job of the same pipeline, if memory ended it.
    fn ended_by_memory(&self, key: &Key) -> Option<AttemptId> {
        let job = JobMark::of(key)?;
        self.parts.learned.read(|history| {
            let mut all = history.on_rung(Rung::Exact, key);
            let last = all.find(|fact| fact.brief.job == Some(job))?;
            let by_memory = last.brief.proven_cause().is_some_and(Cause::is_memory);
            by_memory.then(|| last.brief.attempt.clone())
        })
    }
}
