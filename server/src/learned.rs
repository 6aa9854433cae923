//! The history, shared: the ingest adds to it, everybody else reads it. Locked for microseconds only; nobody holds the lock
//! while waiting for anything.

use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::{AttemptId, History, Summary};

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

    /// Adds a summary and returns how many attempts are known now. Phases stay on disk: nobody learns from them, and 64 of them
    /// would be most of what a summary takes.
    pub(crate) fn learn(&self, summary: Arc<Summary>) -> usize {
        let summary = if summary.phases.is_empty() {
            summary
        } else {
            Arc::new(Summary { phases: Vec::new(), ..Arc::unwrap_or_clone(summary) })
        };
        let mut history = self.0.write().unwrap_or_else(PoisonError::into_inner);
        history.learn(summary);
        history.len()
    }

    /// How many attempts may be known.
    pub(crate) fn capacity(&self) -> usize {
        self.read(History::capacity)
    }

    /// The attempt with this id, if it is in memory.
    pub(crate) fn get(&self, id: &AttemptId) -> Option<Arc<Summary>> {
        self.read(|history| history.get(id).map(Arc::clone))
    }

    /// All attempts, newest first. Copies pointers, so that long work is done without the lock.
    pub(crate) fn newest_first(&self) -> Vec<Arc<Summary>> {
        self.read(|history| history.newest_first().map(Arc::clone).collect())
    }
}
