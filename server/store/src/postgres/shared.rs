//! State shared by the writer, the holder's beat and the handles of a store in PostgreSQL.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::schema::HeldStore;
use crate::{
    kv::{StoreMode, StoreStatus},
    status::SharedStatus,
};

/// Time without a new heartbeat after which another server takes the lease: several beats, and one that had to connect
/// again.
pub(super) const STILL_FOR: Duration = Duration::from_secs(6);
/// Why a store counts as read-only although no commit has failed.
const NO_HEARTBEAT: &str = "nothing reached the database for some seconds, so another server may take the store; writing goes on by itself if none does";

/// Whether the store is writable, and its counters.
#[derive(Debug)]
pub(super) struct DatabaseStatus {
    pub(super) status: Arc<SharedStatus>,
    /// When the last beat was sent that reached the database.
    last_beat: Mutex<Instant>,
}

impl DatabaseStatus {
    /// The status of a store that was just opened.
    pub(super) fn new(held: &HeldStore) -> Self {
        let status = SharedStatus::new(StoreStatus {
            commits: held.identity.sequence,
            lease_epoch: held.epoch.cast_unsigned(),
            commits_lost: held.commits_lost,
            ..StoreStatus::default()
        });
        Self { status: Arc::new(status), last_beat: Mutex::new(Instant::now()) }
    }

    /// Records that a beat that was sent at this time has reached the database, whose clock then showed `database_ms`.
    pub(super) fn note_beat(&self, sent: Instant, database_ms: i64) {
        *self.last_beat.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        self.status.update(|status| status.database_clock = Some((database_ms, Instant::now())));
    }

    /// Records what became of a commit that had no answer.
    pub(super) fn note_fate(&self, number: i64, is_applied: bool) {
        self.status.update(|status| status.unknown_fates += 1);
        tracing::info!(number, is_applied, "what became of a commit without an answer is known");
    }

    /// The current status of the store.
    pub(super) fn read(&self) -> StoreStatus {
        let mut status = self.status.read();
        let without_beat = self.last_beat.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if status.mode == StoreMode::Writable && without_beat >= STILL_FOR {
            status.mode = StoreMode::ReadOnly { reason: NO_HEARTBEAT.to_owned() };
        }
        status
    }
}
