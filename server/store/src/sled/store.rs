//! The store on disk: a handle that sends commits to the writer thread, and reads on threads that may block.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    directory::Directory,
    engine::Engine,
    engine_error::EngineError,
    engine_state::EngineState,
    marker::{Marker, StoreStage},
    open_error::OpenError,
    opening::{open_compared, prove_durable},
    prepared::PreparedEngine,
    snapshot::EngineSnapshot,
    witness::CommitWitness,
    writer::{LastCommit, Writer},
};
use crate::{
    committing::{CommitQueue, PendingCommit},
    errors::{CommitError, StoreError, StoreResult},
    found_damage::FoundDamage,
    group_commit::GroupCommit,
    kv::{Batch, PageLimit, ScanPage, StoreIdentity, StoreStatus, UnreadableRange, VersionedValue},
    packed_page::PackedPage,
};

/// Where the store is, and how much memory its cache may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The data directory; created if it does not exist.
    pub dir: PathBuf,
    /// Size of the engine's cache, bytes. The engine may take four times as much memory.
    pub cache_bytes: u64,
}

/// A store in files. Its clones share it. The files are released by [`Self::close`], or some time after the
/// last clone is dropped.
#[derive(Debug, Clone)]
pub struct SledStore {
    /// The data directory, for error texts.
    dir: Arc<Path>,
    shared: Arc<EngineState>,
    queue: Arc<CommitQueue<Writer>>,
}

impl SledStore {
    /// Opens the store, or creates it. Blocks while the engine recovers.
    /// Errors: the error names the file and says what to do. A directory of another program is not changed.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open(&settings.dir)?;
        let (engine, identity) = open_engine(&directory, &marker, settings.cache_bytes)?;
        directory.tidy(&engine)?;
        let (commit_sequence, state) = (identity.sequence, StoreStage::Ready);
        Marker { commit_sequence, state, attempts: None, ..marker }.write(directory.path())?;
        let witness = CommitWitness::begin(directory.path(), identity)?;
        let shared = Arc::new(EngineState::new(&settings.dir, engine, identity.sequence));
        let (status, last) = (Arc::clone(&shared.status), LastCommit { identity, witness });
        let writer = Writer::new(directory, settings.cache_bytes, Arc::clone(&shared), last);
        let run = move |messages| GroupCommit::new(writer, status, messages).run_blocking();
        let queue = CommitQueue::start(run);
        let queue = queue.map_err(OpenError::io("start the writer thread of", &settings.dir))?;
        Ok(Self { dir: Arc::from(settings.dir.as_path()), shared, queue: Arc::new(queue) })
    }

    pub(crate) async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        self.queue.begin(batch).await
    }

    pub(crate) async fn get(&self, key: Vec<u8>) -> StoreResult<Option<VersionedValue>> {
        self.read(move |engine| engine.get(&key)).await
    }

    pub(crate) async fn holds(&self, prefixes: Vec<Vec<u8>>) -> StoreResult<Vec<bool>> {
        let shared = Arc::clone(&self.shared);
        // keys that cannot be read may exist
        let holds = move |engine: &Engine, prefix: &[u8]| {
            engine.holds(prefix).unwrap_or_else(|error| {
                shared.note_read_error(&error);
                true
            })
        };
        self.read(move |engine| Ok(prefixes.iter().map(|prefix| holds(engine, prefix)).collect())).await
    }

    pub(crate) async fn scan(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: PageLimit,
    ) -> StoreResult<ScanPage> {
        self.read(move |engine| engine.scan(&prefix, after.as_deref(), limit)).await
    }

    pub(crate) async fn scan_packed(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: PageLimit,
    ) -> StoreResult<PackedPage> {
        // the caller reads past damage next, which notes it with its range of keys
        let read = self.call(move |engine| engine.scan_packed(&prefix, after.as_deref(), limit)).await?;
        read.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    pub(crate) async fn scan_past(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: PageLimit,
    ) -> StoreResult<(ScanPage, Option<UnreadableRange>)> {
        let read = self.read(move |engine| engine.scan_past(&prefix, after.as_deref(), limit)).await;
        if let Ok((_, Some(gap))) = &read {
            self.shared.note_damage(&gap.reason, gap);
        }
        read
    }

    pub(crate) fn found_damage(&self) -> FoundDamage {
        self.shared.found_damage.clone()
    }

    pub(crate) fn status(&self) -> StoreStatus {
        self.shared.status.read()
    }

    /// Receives each later status.
    #[cfg(test)]
    pub(crate) fn watch_status(&self) -> tokio::sync::watch::Receiver<StoreStatus> {
        self.shared.status.watch()
    }

    pub(crate) async fn snapshot(&self) -> StoreResult<EngineSnapshot> {
        let busy = || StoreError::Unavailable("another snapshot is being read; wait for its end".to_owned());
        let (identity, rescue) = self.queue.call(Writer::begin_snapshot).await?.ok_or_else(busy)?;
        Ok(EngineSnapshot::new(identity, rescue, Arc::clone(&self.shared)))
    }

    /// Waits until the accepted commits are written, then releases the files. Later calls return success at
    /// once.
    pub(crate) async fn close(&self) -> StoreResult<()> {
        self.queue.close(|| {}).await
    }

    /// Reads; damage that is found is noted.
    async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> StoreResult<T> {
        self.call(call).await?.map_err(|error| {
            let reason = self.shared.note_read_error(&error);
            StoreError::Unavailable(format!("{}: {reason}", self.dir.display()))
        })
    }

    /// Calls the engine. The inner error is the engine's own.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> StoreResult<Result<T, EngineError>> {
        let Some(engine) = self.shared.engine() else {
            let reason = self.shared.status.refusal().unwrap_or_else(|| "it is being reopened".to_owned());
            return Err(StoreError::Unavailable(reason));
        };
        let done = tokio::task::spawn_blocking(move || call(&engine)).await;
        done.map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}

/// Opens the engine, compares it with its marker, and checks that a flush reaches the disk.
fn open_engine(
    directory: &Directory,
    marker: &Marker,
    cache_bytes: u64,
) -> Result<(Engine, StoreIdentity), OpenError> {
    let (engine, identity) = open_compared(directory, marker, cache_bytes, PreparedEngine::prepare_moved)?;
    prove_durable(&directory.engine(), &engine, identity)?;
    Ok((engine, identity))
}
