//! Index from jobs to their attempts. Most jobs have one attempt, so that case takes the least memory.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::super::{AttemptBrief, JobMark, weight};

/// Most steps back along a chain of retries, and most earlier attempts returned.
pub(in crate::domain) const LINEAGE_STEPS: usize = 32;

/// Bytes that this index takes for an attempt, if the attempt's key names a job.
const INDEX_BYTES: usize = weight::table_entry_bytes(size_of::<ByJob>());

/// Attempts by job. Attempts without a job in their key are left out.
#[derive(Debug, Default)]
pub(super) struct JobIndex {
    /// One attempt for each job.
    representatives: HashSet<ByJob, RandomState>,
    /// The further attempts of each job, in no order. Of a job with more attempts than verdicts count, only the newest are kept.
    further: HashMap<JobMark, Vec<Arc<AttemptBrief>>, RandomState>,
}

/// An attempt that is hashed and compared by its job.
#[derive(Debug)]
struct ByJob(Arc<AttemptBrief>);

impl Borrow<Option<JobMark>> for ByJob {
    fn borrow(&self) -> &Option<JobMark> {
        &self.0.job
    }
}

impl Hash for ByJob {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.job.hash(state);
    }
}

impl PartialEq for ByJob {
    fn eq(&self, other: &Self) -> bool {
        self.0.job == other.0.job
    }
}

impl Eq for ByJob {}

impl JobIndex {
    /// Reserves space for this many more attempts.
    pub(super) fn reserve(&mut self, more: usize) {
        self.representatives.reserve(more);
    }

    pub(super) fn add(&mut self, brief: &Arc<AttemptBrief>) {
        let Some(job) = brief.job else { return };
        if !self.representatives.contains(&brief.job) {
            self.representatives.insert(ByJob(Arc::clone(brief)));
            return;
        }
        if self.further.get(&job).is_some_and(|others| others.len() + 1 >= LINEAGE_STEPS)
            && let Some(oldest) = self.of_job(job).min_by_key(|other| other.position()).map(Arc::clone)
        {
            if brief.position() < oldest.position() {
                return;
            }
            self.remove(&oldest);
        }
        self.further.entry(job).or_default().push(Arc::clone(brief));
    }

    pub(super) fn replace(&mut self, earlier: &Arc<AttemptBrief>, now: &Arc<AttemptBrief>) {
        if earlier.job == now.job
            && self.representatives.get(&earlier.job).is_some_and(|one| Arc::ptr_eq(&one.0, earlier))
        {
            self.representatives.replace(ByJob(Arc::clone(now)));
            return;
        }
        self.remove(earlier);
        self.add(now);
    }

    pub(super) fn remove(&mut self, brief: &Arc<AttemptBrief>) {
        let Some(job) = brief.job else { return };
        let others = self.further.get_mut(&job);
        if self.representatives.get(&brief.job).is_some_and(|one| Arc::ptr_eq(&one.0, brief)) {
            self.representatives.remove(&brief.job);
            if let Some(next) = others.and_then(Vec::pop) {
                self.representatives.insert(ByJob(next));
            }
        } else if let Some(others) = others {
            others.retain(|other| !Arc::ptr_eq(other, brief));
        }
        if self.further.get(&job).is_some_and(Vec::is_empty) {
            self.further.remove(&job);
        }
    }

    /// All attempts of a job, in no order.
    pub(super) fn of_job(&self, job: JobMark) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        let others = self.further.get(&job).into_iter().flatten();
        self.representatives.get(&Some(job)).map(|one| &one.0).into_iter().chain(others)
    }

    pub(super) fn one_of_each_job(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        self.representatives.iter().map(|one| &one.0)
    }

    /// The jobs with more than one attempt.
    pub(super) fn repeated_jobs(&self) -> impl Iterator<Item = JobMark> {
        self.further.keys().copied()
    }
}

/// Bytes that this index takes for an attempt.
pub(super) fn bytes_of(brief: &AttemptBrief) -> usize {
    if brief.job.is_some() { INDEX_BYTES } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Summary, test_summary};

    fn of_job(id: &str, minute: u64) -> Arc<AttemptBrief> {
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.key.labels = [("pipeline".into(), "9".into()), ("job".into(), "build".into())].into();
        summary.started_unix_ms += minute * 60_000;
        Arc::new((&summary as &Summary).into())
    }

    #[test]
    fn removal_in_any_order_leaves_nothing() {
        let all = ["a", "b", "c"].map(|id| of_job(id, 0));
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut jobs = JobIndex::default();
            for brief in &all {
                jobs.add(brief);
            }
            assert_eq!((jobs.of_job(all[0].job.unwrap()).count(), jobs.repeated_jobs().count()), (3, 1));
            for at in order {
                jobs.remove(&all[at]);
            }
            assert!(jobs.representatives.is_empty() && jobs.further.is_empty(), "{order:?}");
        }
    }

    #[test]
    fn a_job_keeps_only_its_newest_attempts() {
        let mut jobs = JobIndex::default();
        let all: Vec<_> = (0..100).map(|n| of_job(&n.to_string(), n)).collect();
        for brief in &all {
            jobs.add(brief);
        }
        let mut kept: Vec<u64> =
            jobs.of_job(all[0].job.unwrap()).map(|brief| brief.started_unix_ms).collect();
        kept.sort_unstable();
        assert_eq!((kept.len(), kept.last()), (LINEAGE_STEPS, Some(&all[99].started_unix_ms)));
        // one that came late and is older than all of them takes no place
        jobs.add(&of_job("old", 0));
        let mut old = jobs.of_job(all[0].job.unwrap()).filter(|brief| brief.attempt.as_str() == "old");
        assert!(old.next().is_none());
    }
}
