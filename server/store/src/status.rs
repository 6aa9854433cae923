//! The status of an open store, which the task that writes changes and the store's handles read.

use std::time::Duration;

use tokio::sync::watch;

use super::kv::{StoreMode, StoreStatus};

/// The status. No lock is held during calls of an engine.
#[derive(Debug)]
pub(crate) struct SharedStatus(watch::Sender<StoreStatus>);

impl SharedStatus {
    /// The status of a store that was just opened.
    pub(crate) fn new(status: StoreStatus) -> Self {
        Self(watch::Sender::new(status))
    }

    /// Why the store is read-only; `None` if it is writable.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.0.borrow().mode.refusal().map(str::to_owned)
    }

    /// Whether another server has taken the store.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.0.borrow().mode, StoreMode::Taken { .. })
    }

    /// Sets whether the store accepts commits. A store that was taken never does again.
    pub(crate) fn set_mode(&self, mode: StoreMode) {
        self.update(|status| {
            if !matches!(status.mode, StoreMode::Taken { .. }) {
                status.mode = mode;
            }
        });
    }

    /// Records that a group of commits was acknowledged, and how long that took.
    pub(crate) fn note_committed(&self, commits: u64, took: Duration) {
        self.update(|status| {
            status.commits = commits;
            status.syncs += 1;
            status.last_commit_micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        });
    }

    /// Changes the status.
    pub(crate) fn update(&self, change: impl FnOnce(&mut StoreStatus)) {
        self.0.send_modify(change);
    }

    /// The current status.
    pub(crate) fn read(&self) -> StoreStatus {
        self.0.borrow().clone()
    }

    /// Receives each later status.
    #[cfg(test)]
    pub(crate) fn watch(&self) -> watch::Receiver<StoreStatus> {
        self.0.subscribe()
    }
}
