//! The shared history: one writer adds to it, all others read it. It is locked for microseconds only, and no caller waits for anything
//! while it holds the lock.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    domain::{
        AttemptBrief, AttemptId, History, HistoryLimits, RetryOf, RetryStatus, RungObservation, Summary,
        Verdict,
    },
    stats::Stats,
};

/// A handle to the history of this server and to the statistics over it.
#[derive(Debug, Clone)]
pub struct SharedHistory {
    history: Arc<RwLock<History>>,
    stats: Stats,
}

/// What changed when an attempt was added.
#[derive(Debug)]
pub struct HistoryUpdate {
    /// Number of attempts that are known now.
    pub known: usize,
    /// The retries that are known now among the attempts of its job and its chain of retries.
    pub retries: Vec<AttemptId>,
}

impl SharedHistory {
    /// Shares `history`, with empty statistics of default settings.
    pub fn new(history: History) -> Self {
        Self::with_stats(history, Stats::new(crate::stats::Settings::default()))
    }

    /// Shares `history`, with these statistics: added attempts are added to `stats` too.
    pub fn with_stats(history: History, stats: Stats) -> Self {
        Self { history: Arc::new(RwLock::new(history)), stats }
    }

    /// The statistics over the history.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Reads the history. `look` must be short: no I/O, and no loop over all attempts.
    pub fn read<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        // after a panic elsewhere, the history may lack one change, which does no harm to readers
        look(&self.history.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an attempt. Retries of it may be known already, because an agent delivers later what it could not send at once.
    pub fn learn(&self, summary: &Summary) -> HistoryUpdate {
        // the observation is built before the lock is taken, because every prediction waits for that lock
        let (id, observation) = (&summary.attempt, RungObservation::from(summary));
        let (new, evicted, known) = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            let knew = history.get(id).map(Arc::clone);
            let evicted = history.learn_and_evict(observation);
            let is_new =
                |brief: &&Arc<AttemptBrief>| knew.as_ref().is_none_or(|knew| !Arc::ptr_eq(knew, brief));
            (history.get(id).filter(is_new).map(Arc::clone), evicted, history.len())
        };
        self.remove_evicted(&evicted);
        let Some(brief) = new else { return HistoryUpdate { known, retries: Vec::new() } };
        self.stats.add(&summary.into(), &brief);
        HistoryUpdate { known, retries: self.update_retries(&brief) }
    }

    /// Removes evicted attempts from the statistics, and updates which of the others are retries.
    fn remove_evicted(&self, evicted: &[Arc<AttemptBrief>]) {
        for brief in evicted {
            self.stats.remove(brief);
            // a list of few attempts is searched for those that name it, because all of them ended later
            let lineage = self.read(|history| history.lineage_of(brief, history.exact_retries_of(brief)));
            self.stats.relate(&lineage);
        }
    }

    /// Updates in the statistics which attempts are retries, after this one changed; returns those that are.
    fn update_retries(&self, brief: &Arc<AttemptBrief>) -> Vec<AttemptId> {
        let retries = self.stats.retries_of(brief);
        let lineage = self.read(|history| history.lineage_of(brief, retries));
        self.stats.relate(&lineage);
        let is_retry = |(_, after): &&(Arc<AttemptBrief>, RetryStatus)| *after != RetryStatus::Nothing;
        lineage.iter().filter(is_retry).map(|(brief, _)| brief.attempt.clone()).collect()
    }

    /// Adds many attempts, and returns how many are known now. The statistics must have them already.
    pub fn learn_all(&self, attempts: Vec<RungObservation>) -> usize {
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        history.learn_all(attempts);
        self.stats.complete(history.of_repeated_jobs(), |brief| history.retry_after(brief));
        history.len()
    }

    /// Replaces the values of an attempt with those of a new summary, if the attempt is still known.
    pub fn replace_summary(&self, summary: &Summary) {
        let (id, observation) = (&summary.attempt, RungObservation::from(summary));
        let (earlier, now, evicted) = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            let earlier = history.get(id).map(Arc::clone);
            let evicted = history.replace_summary(observation);
            (earlier, history.get(id).map(Arc::clone), evicted)
        };
        self.remove_evicted(&evicted);
        if let Some((earlier, now)) = earlier.zip(now).filter(|(earlier, now)| !Arc::ptr_eq(earlier, now)) {
            self.stats.replace_summary(&earlier, &summary.into(), &now);
            if earlier.retries != now.retries {
                let _retries = self.update_retries(&earlier);
            }
            let _retries = self.update_retries(&now);
        }
    }

    /// Records how memory ended an attempt, so that predictions name the same size as the verdict.
    pub fn note_memory_end(&self, verdict: &Verdict) {
        self.history.write().unwrap_or_else(PoisonError::into_inner).note_memory_end(verdict);
    }

    /// Counts a stored verdict in the statistics, in place of the earlier verdict on the attempt.
    pub fn count_verdict(&self, verdict: &Verdict, earlier: Option<&Verdict>) {
        let refuses = verdict.avoids_retry();
        if refuses || earlier.is_some_and(Verdict::avoids_retry) {
            let ended = self.read(|history| history.get(&verdict.attempt).map(Arc::clone));
            let ended = ended.filter(|brief| verdict.counts_for(&brief.key.project));
            let project = &verdict.basis.reported.project;
            self.stats.refuse(&verdict.attempt, project, ended.as_deref(), refuses);
        }
    }

    /// Removes from the statistics an attempt that was deleted from disk.
    pub fn remove_from_stats(&self, id: &AttemptId) {
        if let Some(brief) = self.read(|history| history.get(id).map(Arc::clone)) {
            self.stats.remove(&brief);
        }
    }

    /// Removes an attempt that was deleted from disk because it was not what it claimed to be.
    pub fn unlearn(&self, id: &AttemptId) {
        self.remove_from_stats(id);
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = history.get(id).map(Arc::clone) else { return };
        history.unlearn(id);
        drop(history);
        let _retries = self.update_retries(&known);
    }

    /// Whether an attempt is a retry, by its own claim and by the known attempts of its job.
    pub fn is_retry(&self, summary: &Summary) -> bool {
        summary.number > 1 || self.read(|history| history.retry_of(&summary.into()) != RetryOf::Nothing)
    }

    /// Fills in which attempt a summary's attempt retries, and its number in the job, as far as they are known: a job that GitLab retries
    /// reports neither.
    pub fn related<'s>(&self, summary: &'s Summary) -> Cow<'s, Summary> {
        let run = summary.into();
        let (retries, before) = self.read(|history| {
            let retries = match history.retry_of(&run) {
                RetryOf::Attempt(original) => Some(original.attempt.clone()),
                RetryOf::Unknown | RetryOf::Nothing => None,
            };
            (retries, history.attempts_before(&run).len())
        });
        let number = summary.number.max(u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1));
        let retries = summary.retries.clone().or(retries);
        if number == summary.number && retries == summary.retries {
            return Cow::Borrowed(summary);
        }
        Cow::Owned(Summary { number, retries, ..summary.clone() })
    }

    /// Capacity for trusted attempts, and for untrusted ones.
    pub fn capacity(&self) -> [HistoryLimits; 2] {
        self.read(History::capacity)
    }

    /// Whether the attempt with this id is in memory.
    pub fn knows(&self, id: &AttemptId) -> bool {
        self.read(|history| history.get(id).is_some())
    }

    /// All attempts, newest first. The pointers are copied, so that long work needs no lock.
    pub fn newest_first(&self) -> Vec<Arc<AttemptBrief>> {
        self.read(|history| history.newest_first().map(Arc::clone).collect())
    }
}
