//! The history, shared: the ingest adds to it, everybody else reads it. Locked for microseconds only; nobody holds the lock
//! while waiting for anything.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{
    domain::{Action, AttemptId, Brief, Fact, History, Room, Summary, Verdict},
    stats::Stats,
};

/// A handle on the one history of this server, and on the statistics over it.
#[derive(Debug, Clone)]
pub(crate) struct Learned {
    history: Arc<RwLock<History>>,
    stats: Stats,
}

impl Learned {
    /// Shares `history`, and counts as nobody said how.
    #[cfg(test)]
    pub(crate) fn new(history: History) -> Self {
        Self::with_stats(history, Stats::new(crate::stats::Settings::default()))
    }

    /// Shares `history`, and adds to `stats` what it learns.
    pub(crate) fn with_stats(history: History, stats: Stats) -> Self {
        Self { history: Arc::new(RwLock::new(history)), stats }
    }

    /// The statistics over the history.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Looks at the history. `look` must be short: no I/O, no loop over everything.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        // a panic elsewhere cannot leave the history half changed in a way that matters for reading
        look(&self.history.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an attempt and returns how many are known now.
    pub(crate) fn learn(&self, summary: &Summary) -> usize {
        // made before the lock, for which every prediction waits
        let (id, original, fact) = (&summary.attempt, &summary.retries, Fact::from(summary));
        let (new, original, known) = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            let knew = history.get(id).map(Arc::clone);
            history.learn(fact);
            let is_new = |brief: &&Arc<Brief>| knew.as_ref().is_none_or(|knew| !Arc::ptr_eq(knew, brief));
            let new = history.get(id).filter(is_new).map(Arc::clone);
            (new, original.as_ref().and_then(|original| history.get(original)?.cause), history.len())
        };
        if let Some(brief) = new {
            self.stats.add(&summary.into(), &brief, original);
        }
        known
    }

    /// Adds many attempts, oldest first, and returns how many are known now. The statistics have them already.
    pub(crate) fn learn_all(&self, attempts: Vec<Fact>) -> usize {
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        history.learn_all(attempts);
        self.stats.complete(|original| history.get(original)?.cause);
        history.len()
    }

    /// Puts an attempt in the place of what was known of it, if it is still known.
    pub(crate) fn settle(&self, summary: &Summary) {
        let (id, fact) = (&summary.attempt, Fact::from(summary));
        let (earlier, now) = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            let earlier = history.get(id).map(Arc::clone);
            history.settle(fact);
            (earlier, history.get(id).map(Arc::clone))
        };
        if let Some((earlier, now)) = earlier.zip(now).filter(|(earlier, now)| !Arc::ptr_eq(earlier, now)) {
            self.stats.settle(&earlier, &summary.into(), &now);
        }
    }

    /// Counts a verdict that is on disk in the place of the one that was in force before.
    pub(crate) fn judged(&self, verdict: &Verdict, earlier: Option<&Verdict>) {
        let refuses = verdict.action == Action::No;
        if refuses || earlier.is_some_and(|earlier| earlier.action == Action::No) {
            let ended = self.read(|history| history.get(&verdict.attempt).map(Arc::clone));
            self.stats.refuse(&verdict.attempt, ended.as_deref(), refuses);
        }
    }

    /// Statistics no longer count an attempt that is gone from the disk.
    pub(crate) fn removed(&self, id: &AttemptId) {
        if let Some(brief) = self.read(|history| history.get(id).map(Arc::clone)) {
            self.stats.remove(&brief);
        }
    }

    /// Unlearns an attempt: it is gone from the disk, and was not what it said.
    pub(crate) fn unlearn(&self, id: &AttemptId) {
        self.removed(id);
        self.history.write().unwrap_or_else(PoisonError::into_inner).unlearn(id);
    }

    /// For how many trusted, and for how many untrusted attempts there is room.
    pub(crate) fn room(&self) -> [Room; 2] {
        self.read(History::room)
    }

    /// Whether the attempt with this id is in memory.
    pub(crate) fn knows(&self, id: &AttemptId) -> bool {
        self.read(|history| history.get(id).is_some())
    }

    /// All attempts, newest first. Copies pointers, so that long work is done without the lock.
    #[cfg(test)]
    pub(crate) fn newest_first(&self) -> Vec<Arc<Brief>> {
        self.read(|history| history.newest_first().map(Arc::clone).collect())
    }
}
