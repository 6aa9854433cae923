//! Jobs that ran out of memory, according to the verdicts on their attempts.

use std::collections::{BTreeSet, HashMap};

use plimsoll_core::domain::{AttemptId, JobName, Key, Verdict};

/// Most jobs kept: those that ran out of memory in some days. About 3 MB.
const MAX_JOBS: usize = 10_000;

/// Jobs that ran out of memory according to a verdict; also jobs that no agent measured. The jobs
/// with the newest verdicts are kept, in whatever order the verdicts come: they are loaded from
/// disk when the server starts.
#[derive(Debug, Default)]
pub(crate) struct JobsShortOfMemory {
    attempts: HashMap<JobName, JudgedAttempt>,
    oldest_first: BTreeSet<(JudgedAttempt, JobName)>,
}

/// Time of a verdict, milliseconds since 1970, and its attempt.
type JudgedAttempt = (u64, AttemptId);

impl JobsShortOfMemory {
    /// Adds the job of a verdict, if the verdict names one and raises its memory.
    pub(crate) fn note(&mut self, verdict: &Verdict) {
        let Some(job) = verdict.job.clone().filter(|_| verdict.raises_memory()) else { return };
        let judged = (verdict.given_unix_ms.unwrap_or(0), verdict.attempt.clone());
        if self.attempts.get(&job).is_some_and(|known| *known > judged) {
            return;
        }
        if let Some(earlier) = self.attempts.insert(job.clone(), judged.clone()) {
            self.oldest_first.remove(&(earlier, job.clone()));
        }
        self.oldest_first.insert((judged, job));
        while self.oldest_first.len() > MAX_JOBS {
            let Some((_, oldest)) = self.oldest_first.pop_first() else { break };
            self.attempts.remove(&oldest);
        }
    }

    /// Removes an attempt, because a verdict for this project found that it did not run out of
    /// memory. Jobs of other projects stay.
    pub(crate) fn forget(&mut self, attempt: &AttemptId, project: &str) {
        let is_meant = |job: &JobName, noted: &AttemptId| {
            noted == attempt && (project.is_empty() || job.project == project)
        };
        if self.attempts.iter().any(|(job, (_, noted))| is_meant(job, noted)) {
            self.attempts.retain(|job, (_, noted)| !is_meant(job, noted));
            self.oldest_first.retain(|((_, noted), job)| !is_meant(job, noted));
        }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<AttemptId> {
        self.attempts.get(&JobName::of(key)?).map(|(_, attempt)| attempt.clone())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Action, Cause, test_verdict};

    use super::*;

    fn raised(n: usize, job: usize, given_unix_ms: u64) -> Verdict {
        let job = JobName { project: "p".into(), pipeline: "1".into(), name: job.to_string() };
        let cause = Cause::Oom;
        let verdict = test_verdict(&n.to_string(), None);
        let verdict = Verdict { job: Some(job), cause, action: Action::Bigger, ..verdict };
        let verdict = Verdict { given_unix_ms: Some(given_unix_ms), ..verdict };
        assert!(verdict.raises_memory());
        verdict
    }

    #[test]
    fn the_newest_verdicts_are_kept_in_any_order() {
        // each job has two verdicts, and there are a tenth more jobs than are kept
        let all: Vec<Verdict> = (0..MAX_JOBS * 22 / 10)
            .map(|n| raised(n, n % (MAX_JOBS * 11 / 10), 1000 + n as u64 / 2))
            .collect();
        let noted = |order: &mut dyn Iterator<Item = &Verdict>| {
            let mut jobs = JobsShortOfMemory::default();
            order.for_each(|verdict| jobs.note(verdict));
            jobs
        };
        let (forward, backward) = (noted(&mut all.iter()), noted(&mut all.iter().rev()));
        assert_eq!(forward.oldest_first.len(), MAX_JOBS);
        assert_eq!((&forward.attempts, &forward.oldest_first), (&backward.attempts, &backward.oldest_first));
        let (mut jobs, last) = (forward, &all[all.len() - 1]);
        jobs.forget(&last.attempt, "other");
        jobs.forget(&last.attempt, "p");
        assert_eq!((jobs.attempts.len(), jobs.oldest_first.len()), (MAX_JOBS - 1, MAX_JOBS - 1));
    }
}
