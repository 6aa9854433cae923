//! State shared by the writer and the handles of a sled store: the engine and its status.

use std::{
    fmt::Display,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::{engine::Engine, engine_error::EngineError};
use crate::{
    found_damage::FoundDamage,
    kv::{StoreMode, StoreStatus},
};

/// State shared by the writer, which changes it, and the store's handles, which read it. No lock is held during
/// calls of the engine.
#[derive(Debug)]
pub(crate) struct EngineState {
    /// The open engine; `None` while it is being reopened, after reopening has failed, and after closing.
    engine: RwLock<Option<Arc<Engine>>>,
    mode: Mutex<StoreMode>,
    /// Whether a read has found damage. From then on the writer reads each key before it writes it.
    damaged: AtomicBool,
    pub(crate) found_damage: FoundDamage,
    bytes_on_disk: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
    /// Number of attempts to reopen; wakes callers that wait for the next attempt.
    tries: watch::Sender<u64>,
    last_commit_micros: AtomicU64,
}

impl EngineState {
    /// The state of a store in `dir` that was just opened and has this many commits.
    pub(crate) fn new(dir: &Path, engine: Engine, commits: u64) -> Self {
        Self {
            engine: RwLock::new(Some(Arc::new(engine))),
            mode: Mutex::new(StoreMode::Writable),
            damaged: AtomicBool::new(false),
            found_damage: FoundDamage::in_directory(dir),
            bytes_on_disk: AtomicU64::new(0),
            commits: AtomicU64::new(commits),
            syncs: AtomicU64::new(0),
            tries: watch::Sender::new(0),
            last_commit_micros: AtomicU64::new(0),
        }
    }

    /// The open engine; `None` while there is none.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace_engine(&self, engine: Option<Arc<Engine>>) -> Option<Arc<Engine>> {
        std::mem::replace(&mut *self.engine.write().unwrap_or_else(PoisonError::into_inner), engine)
    }

    /// Why the store is read-only; `None` if it is writable.
    pub(crate) fn reason(&self) -> Option<String> {
        self.mode().refusal().map(str::to_owned)
    }

    /// Sets whether the store accepts commits.
    pub(crate) fn set_mode(&self, mode: StoreMode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Records that the engine found damage, and why: that names the place in its files. What follows a semicolon does not.
    pub(crate) fn note_damage(&self, reason: &str, what: impl Display) {
        self.damaged.store(true, Relaxed);
        self.found_damage.note(reason.split(';').next().unwrap_or(reason), what);
    }

    /// Records that the engine failed to read, if damage is why; returns the reason, then with the way out.
    pub(crate) fn note_read_error(&self, error: &EngineError) -> String {
        if !error.is_damage_of_reading() {
            return error.to_string();
        }
        self.note_damage(&error.reason, error);
        self.found_damage.explain(error)
    }

    /// Whether a read has found damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Relaxed)
    }

    /// Records that a group of commits is on disk, and how long that took.
    pub(crate) fn note_committed(&self, commits: u64, took: Duration) {
        self.commits.store(commits, Relaxed);
        self.syncs.fetch_add(1, Relaxed);
        self.last_commit_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Records an attempt to reopen, whatever its result.
    pub(crate) fn note_try(&self) {
        self.tries.send_modify(|tries| *tries += 1);
    }

    /// Receives each later attempt to reopen.
    #[cfg(test)]
    pub(crate) fn watch_tries(&self) -> watch::Receiver<u64> {
        self.tries.subscribe()
    }

    /// Records the size of the files.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes_on_disk.store(bytes, Relaxed);
    }

    /// The current status of the store.
    pub(crate) fn status(&self) -> StoreStatus {
        StoreStatus {
            mode: self.mode(),
            bytes_on_disk: self.bytes_on_disk.load(Relaxed),
            commits: self.commits.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            tries: *self.tries.borrow(),
            lease_epoch: 0,
            last_commit_micros: self.last_commit_micros.load(Relaxed),
            unknown_fates: 0,
            commits_lost: 0,
            database_clock: None,
        }
    }

    fn mode(&self) -> StoreMode {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
