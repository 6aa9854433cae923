//! What the writer and the handles of a sled store share: the engine at hand and how it fares.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::engine::Engine;
use crate::kv::{StoreMode, StoreStatus};

/// Shared by the writer, which changes it, and the handles, which read it. No lock is held while the engine works.
#[derive(Debug)]
pub(crate) struct EngineState {
    /// `None` while it is being reopened, or could not be, or is closed.
    engine: RwLock<Option<Arc<Engine>>>,
    mode: Mutex<StoreMode>,
    /// Something could not be read once: before a key is written, it is read.
    damaged: AtomicBool,
    bytes_on_disk: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
    /// Those that wait for the next one are woken.
    tries: watch::Sender<u64>,
    last_commit_micros: AtomicU64,
}

impl EngineState {
    /// A store that works and has seen this many commits.
    pub(crate) fn new(engine: Engine, commits: u64) -> Self {
        Self {
            engine: RwLock::new(Some(Arc::new(engine))),
            mode: Mutex::new(StoreMode::Writable),
            damaged: AtomicBool::new(false),
            bytes_on_disk: AtomicU64::new(0),
            commits: AtomicU64::new(commits),
            syncs: AtomicU64::new(0),
            tries: watch::Sender::new(0),
            last_commit_micros: AtomicU64::new(0),
        }
    }

    /// The engine at hand.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another engine in place of the one at hand.
    pub(crate) fn replace_engine(&self, engine: Option<Arc<Engine>>) -> Option<Arc<Engine>> {
        std::mem::replace(&mut *self.engine.write().unwrap_or_else(PoisonError::into_inner), engine)
    }

    /// Why the store is read-only, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        match self.mode() {
            StoreMode::Writable => None,
            StoreMode::ReadOnly { reason } => Some(reason),
        }
    }

    /// Changes whether the store takes commits.
    pub(crate) fn set_mode(&self, mode: StoreMode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Notes that something cannot be read.
    pub(crate) fn note_damage(&self) {
        self.damaged.store(true, Relaxed);
    }

    /// Whether something could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Relaxed)
    }

    /// Notes a group that is on the disk.
    pub(crate) fn committed(&self, commits: u64, took: Duration) {
        self.commits.store(commits, Relaxed);
        self.syncs.fetch_add(1, Relaxed);
        self.last_commit_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Notes a try to take up writing again, whatever came of it.
    pub(crate) fn tried(&self) {
        self.tries.send_modify(|tries| *tries += 1);
    }

    /// Tells of each try from now on.
    #[cfg(test)]
    pub(crate) fn tries(&self) -> watch::Receiver<u64> {
        self.tries.subscribe()
    }

    /// Notes the size of the files.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes_on_disk.store(bytes, Relaxed);
    }

    /// All of it.
    pub(crate) fn status(&self) -> StoreStatus {
        StoreStatus {
            mode: self.mode(),
            bytes_on_disk: self.bytes_on_disk.load(Relaxed),
            commits: self.commits.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            tries: *self.tries.borrow(),
            last_commit_micros: self.last_commit_micros.load(Relaxed),
        }
    }

    fn mode(&self) -> StoreMode {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
