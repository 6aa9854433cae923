//! The history, shared: the ingest adds to it, everybody else reads it. Locked for microseconds only; nobody holds the lock
//! while waiting for anything.

use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::{AttemptId, Brief, Fact, History};

/// A handle on the one history of this server.
#[derive(Debug, Clone)]
pub(crate) struct Learned(Arc<RwLock<History>>);

impl Learned {
    /// Shares `history`.
    pub(crate) fn new(history: History) -> Self {
        Self(Arc::new(RwLock::new(history)))
    }

    /// Looks at the history. `look` must be short: no I/O, no loop over everything.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        // a panic elsewhere cannot leave the history half changed in a way that matters for reading
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an attempt and returns how many are known now.
    pub(crate) fn learn(&self, attempt: impl Into<Fact>) -> usize {
        let fact = attempt.into();
        let mut history = self.0.write().unwrap_or_else(PoisonError::into_inner);
        history.learn(fact);
        history.len()
    }

    /// Adds many attempts, oldest first, and returns how many are known now.
    pub(crate) fn learn_all(&self, attempts: Vec<Fact>) -> usize {
        let mut history = self.0.write().unwrap_or_else(PoisonError::into_inner);
        history.learn_all(attempts);
        history.len()
    }

    /// Puts an attempt in the place of what was known of it, if it is still known.
    pub(crate) fn settle(&self, attempt: impl Into<Fact>) {
        let fact = attempt.into();
        self.0.write().unwrap_or_else(PoisonError::into_inner).settle(fact);
    }

    /// How many attempts may be known.
    pub(crate) fn capacity(&self) -> usize {
        self.read(History::capacity)
    }

    /// Whether the attempt with this id is in memory.
    pub(crate) fn knows(&self, id: &AttemptId) -> bool {
        self.read(|history| history.get(id).is_some())
    }

    /// All attempts, newest first. Copies pointers, so that long work is done without the lock.
    pub(crate) fn newest_first(&self) -> Vec<Arc<Brief>> {
        self.read(|history| history.newest_first().map(Arc::clone).collect())
    }
}
