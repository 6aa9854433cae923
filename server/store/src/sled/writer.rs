//! What the task that writes does with sled: writes a group of commits as one batch of the engine, flushed before it returns.
//!
//! After an error it reopens the engine, because a handle of sled does not recover from one.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use super::{
    commit_plan::plan_group,
    directory::Directory,
    engine::Engine,
    engine_error::EngineError,
    engine_state::EngineState,
    marker::{Marker, StoreStage},
    open_error::{FORMAT_VERSION, OpenError},
    opening::refuse_by_forecast,
    small_files,
    snapshot::SharedSnapshot,
    witness::CommitWitness,
};
use crate::{
    committing::CommitJob,
    group_commit::{GroupEngine, RETRY_EVERY, WrittenGroup},
    kv::{StoreIdentity, StoreMode},
};

/// The marker is updated after at most this many commits.
const MARKER_INTERVAL_COMMITS: u64 = 1000;

/// What is known of the last commit when the store opens.
#[derive(Debug)]
pub(crate) struct LastCommit {
    pub(crate) identity: StoreIdentity,
    /// The witness file.
    pub(crate) witness: CommitWitness,
}

/// What the task that writes has of a store in files.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: Directory,
    cache_bytes: u64,
    shared: Arc<EngineState>,
    /// The store's identity, with the number of the last acknowledged commit.
    identity: StoreIdentity,
    /// The witness file, in which every acknowledged commit is recorded.
    witness: CommitWitness,
    /// Whether a failed write to the witness was already logged.
    witness_failed: bool,
    /// Number of the last commit that the marker records.
    marked_sequence: u64,
    last_measure: Option<Instant>,
    /// The snapshot that is being read, if any.
    snapshot: Weak<SharedSnapshot>,
}

impl Writer {
    /// A writer for an open engine.
    pub(crate) fn new(
        directory: Directory,
        cache_bytes: u64,
        shared: Arc<EngineState>,
        last: LastCommit,
    ) -> Self {
        let LastCommit { identity, witness } = last;
        let mut writer = Self {
            directory,
            cache_bytes,
            shared,
            identity,
            witness,
            witness_failed: false,
            marked_sequence: identity.sequence,
            last_measure: None,
            snapshot: Weak::new(),
        };
        writer.measure_files();
        writer
    }

    /// Begins a snapshot of the last commit; `None` while another one is read.
    pub(crate) fn begin_snapshot(&mut self) -> Option<(StoreIdentity, Arc<SharedSnapshot>)> {
        (self.snapshot.strong_count() == 0).then(|| {
            let rescue = SharedSnapshot::new(self.identity.sequence);
            self.snapshot = Arc::downgrade(&rescue);
            (self.identity, rescue)
        })
    }

    /// Records the last commit in the witness. If that fails, the witness keeps an older commit, which is safe.
    fn update_witness(&mut self) {
        let noted = self.witness.record_commit(self.identity);
        if let Err(error) = &noted
            && !self.witness_failed
        {
            tracing::warn!(%error, "cannot update the witness file: a loss of the last commits would not be noticed");
        }
        self.witness_failed = noted.is_err();
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        // while the disk is full, keep the old engine, which can still read
        self.directory.probe_room().map_err(|error| EngineError::other(error.to_string()))?;
        if let Some(engine) = self.shared.replace_engine(None).and_then(Arc::into_inner) {
            engine.close()?;
        }
        let unusable = |error: OpenError| EngineError::other(error.to_string());
        small_files::remove_unusable(&self.directory.engine()).map_err(unusable)?;
        let path = self.directory.engine();
        refuse_by_forecast(self.directory.path(), &path, &self.marker()).map_err(unusable)?;
        let engine = Engine::open(&path, self.cache_bytes)?;
        let found = engine.identity()?;
        let whole = found.filter(|found| found.id == self.identity.id);
        let Some(found) = whole.filter(|found| found.sequence >= self.identity.sequence) else {
            let known = self.identity.sequence;
            return Err(EngineError::other(format!(
                "the store came back without commits that were acknowledged ({known} expected): restore a backup"
            )));
        };
        engine.apply(&[], found)?;
        self.identity = found;
        self.shared.replace_engine(Some(Arc::new(engine)));
        Ok(())
    }

    /// Updates the marker. If that fails, the marker keeps an older commit, which is safe.
    fn update_marker(&mut self) {
        let marker = self.marker();
        self.marked_sequence = self.identity.sequence;
        if let Err(error) = marker.update(self.directory.path()) {
            tracing::warn!(%error, "cannot update the marker file of the store");
        }
    }

    /// The current content of the marker.
    fn marker(&self) -> Marker {
        Marker {
            store_id: self.identity.id,
            format_version: FORMAT_VERSION,
            commit_sequence: self.identity.sequence,
            state: StoreStage::Ready,
            attempts: None,
        }
    }

    /// Measures the size of the files, if the last measurement is old enough.
    fn measure_files(&mut self) {
        if self.last_measure.is_none_or(|last| last.elapsed() >= RETRY_EVERY) {
            self.last_measure = Some(Instant::now());
            let bytes = self.directory.bytes();
            self.shared.status.update(|status| status.bytes_on_disk = bytes);
        }
    }
}

impl GroupEngine for Writer {
    type Error = EngineError;
    const COMMITS_WAIT: bool = true;
    const ENDED: &str = "the thread that writes has ended; restart the server";

    async fn write(&mut self, group: &[CommitJob]) -> Result<WrittenGroup, EngineError> {
        let engine = self.shared.engine().ok_or_else(|| EngineError::other("the engine is not open"))?;
        let plan = plan_group(&engine, self.identity.sequence, group, &self.shared);
        if plan.sequence > self.identity.sequence {
            let identity = StoreIdentity { sequence: plan.sequence, ..self.identity };
            if let Some(snapshot) = self.snapshot.upgrade() {
                snapshot.keep_before_change(&engine, plan.changes.iter().map(|(key, _)| *key))?;
            }
            engine.apply(&plan.changes, identity)?;
            self.identity = identity;
            self.update_witness();
        }
        Ok(WrittenGroup { last: plan.sequence, outcomes: plan.outcomes })
    }

    fn mode_after(&mut self, error: EngineError) -> StoreMode {
        let path = self.directory.path().display();
        let reason = if error.is_damage() {
            // from now on only what lies beside damage is refused
            format!("{path}: {}", self.shared.note_read_error(&error))
        } else {
            format!("{path}: {error}; a server goes on writing by itself once the disk has room and works")
        };
        tracing::error!(%reason, "the store is read-only");
        StoreMode::ReadOnly { reason }
    }

    fn needs_recovery(&self, is_read_only: bool) -> bool {
        is_read_only
    }

    async fn recover(&mut self) -> Result<(), EngineError> {
        self.reopen()?;
        tracing::info!(dir = %self.directory.path().display(), "the store is writable again");
        Ok(())
    }

    async fn maintain(&mut self) {
        if self.identity.sequence - self.marked_sequence >= MARKER_INTERVAL_COMMITS {
            self.update_marker();
        }
        self.measure_files();
    }

    /// All answered commits are on disk already.
    async fn end(&mut self) {
        self.update_marker();
        let engine = self.shared.replace_engine(None).and_then(Arc::into_inner);
        if let Some(Err(error)) = engine.map(Engine::close) {
            tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
        }
    }
}
