//! Jobs that ran out of memory, according to the verdicts on their attempts.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use plimsoll_core::domain::{AttemptId, JobName, Key, Verdict};

/// Most jobs kept: those that ran out of memory in some days. About 3 MB.
const MAX_JOBS: usize = 10_000;

/// Jobs that ran out of memory according to a verdict, oldest first; also jobs that no agent
/// measured. They are loaded from the verdicts on disk when the server starts.
#[derive(Debug, Default)]
pub(crate) struct JobsShortOfMemory {
    attempts: HashMap<JobName, AttemptId>,
    oldest_first: VecDeque<JobName>,
}

impl JobsShortOfMemory {
    /// Adds the job of a verdict, if the verdict names one and raises its memory.
    pub(crate) fn note(&mut self, verdict: &Verdict) {
        let Some(job) = verdict.job.clone().filter(|_| verdict.raises_memory()) else { return };
        if self.attempts.insert(job.clone(), verdict.attempt.clone()).is_none() {
            self.oldest_first.push_back(job);
        }
        while self.oldest_first.len() > MAX_JOBS {
            let Some(oldest) = self.oldest_first.pop_front() else { break };
            self.attempts.remove(&oldest);
        }
    }

    /// Removes an attempt, because a verdict for this project found that it did not run out of
    /// memory. Jobs of other projects stay.
    pub(crate) fn forget(&mut self, attempt: &AttemptId, project: &str) {
        let is_meant = |job: &JobName, noted: &AttemptId| {
            noted == attempt && (project.is_empty() || job.project == project)
        };
        if !self.attempts.iter().any(|(job, noted)| is_meant(job, noted)) {
            return;
        }
        self.attempts.retain(|job, noted| !is_meant(job, noted));
        let Self { attempts, oldest_first: order } = self;
        order.retain(|job| attempts.contains_key(job));
    }

    pub(crate) fn find(&self, key: &Key) -> Option<AttemptId> {
        self.attempts.get(&JobName::of(key)?).cloned()
    }
}

/// Selects the newest of many verdicts that name a job and come in any order, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct NewestMemoryEnds(Vec<Verdict>);

impl NewestMemoryEnds {
    /// Adds a verdict without its large parts, if it names a job.
    pub(crate) fn add_verdict(&mut self, verdict: &Verdict) {
        if verdict.job.is_none() {
            return;
        }
        let none = Verdict { evidence: Vec::new(), next: None, reason: String::new(), ..verdict.clone() };
        self.0.push(none);
        if self.0.len() >= 2 * MAX_JOBS {
            self.drop_excess();
        }
    }

    fn drop_excess(&mut self) {
        self.0.sort_by_key(|verdict| Reverse(verdict.given_unix_ms));
        self.0.truncate(MAX_JOBS);
    }

    /// Adds the jobs of the selected verdicts, oldest first.
    pub(crate) fn note_all(mut self, short: &Mutex<JobsShortOfMemory>) {
        self.drop_excess();
        let mut short = short.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.iter().rev().for_each(|verdict| short.note(verdict));
    }
}
