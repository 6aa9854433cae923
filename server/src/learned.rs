//! The history, shared: the ingest adds to it, everybody else reads it. Locked for microseconds only; nobody holds the lock
//! while waiting for anything.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    domain::{Action, AttemptId, Brief, Fact, History, RetryOf, Room, Summary, Verdict},
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

    /// Adds an attempt and returns how many are known now. Others of its job may have waited for it: an agent delivers late what it
    /// could not send.
    pub(crate) fn learn(&self, summary: &Summary) -> usize {
        // made before the lock, for which every prediction waits
        let (id, fact) = (&summary.attempt, Fact::from(summary));
        let (new, known) = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            let knew = history.get(id).map(Arc::clone);
            history.learn(fact);
            let is_new = |brief: &&Arc<Brief>| knew.as_ref().is_none_or(|knew| !Arc::ptr_eq(knew, brief));
            (history.get(id).filter(is_new).map(Arc::clone), history.len())
        };
        if let Some(brief) = new {
            self.stats.add(&summary.into(), &brief);
            self.relate(&brief);
        }
        known
    }

    /// Lets the statistics know which attempts are retries, now that something is new about this one.
    fn relate(&self, brief: &Arc<Brief>) {
        let retries = self.stats.retries_of(brief);
        let lineage = self.read(|history| history.lineage_of(brief, retries));
        self.stats.relate(&lineage);
    }

    /// Adds many attempts, oldest first, and returns how many are known now. The statistics have them already.
    pub(crate) fn learn_all(&self, attempts: Vec<Fact>) -> usize {
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        history.learn_all(attempts);
        self.stats.complete(history.of_repeated_jobs(), |brief| history.retry_after(brief));
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
            self.relate(&now);
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
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = history.get(id).map(Arc::clone) else { return };
        history.unlearn(id);
        drop(history);
        self.relate(&known);
    }

    /// Whether an attempt is a retry, by what it says and by the others of its job that are known.
    pub(crate) fn is_retry(&self, summary: &Summary) -> bool {
        summary.number > 1 || self.read(|history| history.retry_of(&summary.into()) != RetryOf::Nothing)
    }

    /// A summary with what it retries and its number among the attempts of its job, as far as they are known: a job that GitLab retries
    /// says neither itself.
    pub(crate) fn related<'s>(&self, summary: &'s Summary) -> Cow<'s, Summary> {
        let run = summary.into();
        let (retries, before) = self.read(|history| {
            let retries = match history.retry_of(&run) {
                RetryOf::Attempt(original) => Some(original.attempt.clone()),
                RetryOf::Unknown | RetryOf::Nothing => None,
            };
            (retries, history.before(&run).len())
        });
        let number = summary.number.max(u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1));
        let retries = summary.retries.clone().or(retries);
        if number == summary.number && retries == summary.retries {
            return Cow::Borrowed(summary);
        }
        Cow::Owned(Summary { number, retries, ..summary.clone() })
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
