//! State shared by the writer and the handles of a sled store: the engine and its status.

use std::{
    fmt::Display,
    path::Path,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{engine::Engine, engine_error::EngineError};
use crate::{found_damage::FoundDamage, kv::StoreStatus, status::SharedStatus};

/// State shared by the writer, which changes it, and the store's handles, which read it. No lock is held during
/// calls of the engine.
#[derive(Debug)]
pub(crate) struct EngineState {
    /// The open engine; `None` while it is being reopened, after reopening has failed, and after closing.
    engine: RwLock<Option<Arc<Engine>>>,
    pub(crate) status: Arc<SharedStatus>,
    /// Whether a read has found damage. From then on the writer reads each key before it writes it.
    damaged: AtomicBool,
    pub(crate) found_damage: FoundDamage,
}

impl EngineState {
    /// The state of a store in `dir` that was just opened and has this many commits.
    pub(crate) fn new(dir: &Path, engine: Engine, commits: u64) -> Self {
        Self {
            engine: RwLock::new(Some(Arc::new(engine))),
            status: Arc::new(SharedStatus::new(StoreStatus { commits, ..StoreStatus::default() })),
            damaged: AtomicBool::new(false),
            found_damage: FoundDamage::in_directory(dir),
        }
    }

    /// The open engine; `None` while there is none.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace_engine(&self, engine: Option<Arc<Engine>>) -> Option<Arc<Engine>> {
        std::mem::replace(&mut *self.engine.write().unwrap_or_else(PoisonError::into_inner), engine)
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
}
