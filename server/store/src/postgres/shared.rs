//! State shared by the writer and the handles of a store in PostgreSQL.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::schema::HeldStore;
use crate::{
    found_damage::FoundDamage,
    kv::{StoreMode, StoreStatus},
};

/// Time without a new heartbeat after which another server takes the lease: several beats, and one that had to connect
/// again.
pub(super) const STILL_FOR: Duration = Duration::from_secs(6);
/// Why a store counts as read-only although no commit has failed.
const NO_HEARTBEAT: &str = "nothing reached the database for some seconds, so another server may take the store; writing goes on by itself if none does";

/// Whether the store is writable, and its counters: the writer changes them, the handles read them.
#[derive(Debug)]
pub(super) struct SharedStatus {
    mode: Mutex<StoreMode>,
    /// When the last beat was sent that reached the database.
    last_beat: Mutex<Instant>,
    /// See [`StoreStatus::database_clock`].
    database_clock: Mutex<Option<(i64, Instant)>>,
    counters: Counters,
    pub(super) found_damage: FoundDamage,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
    tries: AtomicU64,
    lease_epoch: AtomicU64,
    last_commit_micros: AtomicU64,
    unknown_fates: AtomicU64,
    commits_lost: AtomicU64,
}

impl SharedStatus {
    /// The status of a store that was just opened.
    pub(super) fn new(held: &HeldStore) -> Self {
        let counters = Counters {
            commits: AtomicU64::new(held.identity.sequence),
            lease_epoch: AtomicU64::new(held.epoch.cast_unsigned()),
            commits_lost: AtomicU64::new(held.commits_lost),
            ..Counters::default()
        };
        let (mode, last_beat) = (Mutex::new(StoreMode::Writable), Mutex::new(Instant::now()));
        Self {
            mode,
            last_beat,
            database_clock: Mutex::default(),
            counters,
            found_damage: FoundDamage::in_database(),
        }
    }

    /// Why the store is read-only; `None` if it is writable.
    pub(super) fn reason(&self) -> Option<String> {
        self.mode().refusal().map(str::to_owned)
    }

    /// Sets whether the store accepts commits. A store that was taken never does again.
    pub(super) fn set_mode(&self, mode: StoreMode) {
        let mut current = self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*current, StoreMode::Taken { .. }) {
            *current = mode;
        }
    }

    /// Whether another server has taken the store.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.mode(), StoreMode::Taken { .. })
    }

    /// Records that a beat that was sent at this time has reached the database, whose clock then showed `database_ms`.
    pub(super) fn note_beat(&self, sent: Instant, database_ms: i64) {
        *self.last_beat.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        *self.database_clock.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((database_ms, Instant::now()));
    }

    /// Records that a group of commits was acknowledged, and how long that took.
    pub(super) fn note_committed(&self, commits: u64, took: Duration) {
        let counters = &self.counters;
        counters.commits.store(commits, Relaxed);
        counters.syncs.fetch_add(1, Relaxed);
        counters.last_commit_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Records an attempt to connect again, whatever its result.
    pub(super) fn note_try(&self) {
        self.counters.tries.fetch_add(1, Relaxed);
    }

    /// Records what became of a commit that had no answer.
    pub(super) fn note_fate(&self, number: i64, is_applied: bool) {
        self.counters.unknown_fates.fetch_add(1, Relaxed);
        tracing::info!(number, is_applied, "what became of a commit without an answer is known");
    }

    /// Records that the database lost commits.
    pub(super) fn add_lost(&self, commits: u64) {
        self.counters.commits_lost.fetch_add(commits, Relaxed);
    }

    /// Records the size of the tables.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.counters.bytes.store(bytes, Relaxed);
    }

    /// The current status of the store.
    pub(super) fn status(&self) -> StoreStatus {
        let counters = &self.counters;
        let without_beat = self.last_beat.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let mode = match self.mode() {
            StoreMode::Writable if without_beat >= STILL_FOR => {
                StoreMode::ReadOnly { reason: NO_HEARTBEAT.to_owned() }
            }
            mode => mode,
        };
        StoreStatus {
            mode,
            bytes_on_disk: counters.bytes.load(Relaxed),
            commits: counters.commits.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            tries: counters.tries.load(Relaxed),
            lease_epoch: counters.lease_epoch.load(Relaxed),
            last_commit_micros: counters.last_commit_micros.load(Relaxed),
            unknown_fates: counters.unknown_fates.load(Relaxed),
            commits_lost: counters.commits_lost.load(Relaxed),
            database_clock: *self.database_clock.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn mode(&self) -> StoreMode {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
