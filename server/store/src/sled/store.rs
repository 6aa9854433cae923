//! The store on disk: a handle that sends commits to the writer thread, and reads on threads that may block.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use tokio::sync::{Semaphore, oneshot};

use super::{
    directory::Directory,
    engine::Engine,
    engine_error::EngineError,
    fault::OpenError,
    marker::{Marker, StoreStage},
    opening::{open_compared, prove_durable},
    prepared::PreparedEngine,
    shared::EngineState,
    snapshot::EngineSnapshot,
    witness::CommitWitness,
    writer::{LastCommit, Writer, WriterMessage},
};
use crate::{
    committing::{CommitJob, PendingCommit, QUEUE_SHARES, QUEUE_SPARE, queue_shares},
    errors::{CommitError, StoreError},
    found_damage::FoundDamage,
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
    queue: SyncSender<WriterMessage>,
    queue_shares: Arc<Semaphore>,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
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
        let (queue, messages) = sync_channel(QUEUE_SHARES + QUEUE_SPARE);
        let last = LastCommit { identity, witness };
        let writer = Writer::new(directory, settings.cache_bytes, Arc::clone(&shared), messages, last);
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(OpenError::io("start the writer thread of", &settings.dir))?;
        let room = Arc::new(Semaphore::new(QUEUE_SHARES));
        let dir = Arc::from(settings.dir.as_path());
        Ok(Self { dir, shared, queue, queue_shares: room, writer: Arc::new(Mutex::new(Some(thread))) })
    }

    pub(crate) async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        batch.check_bounds()?;
        let shares = queue_shares(&batch);
        let room =
            Arc::clone(&self.queue_shares).acquire_many_owned(shares).await.map_err(|_closed| closed())?;
        let (answer, outcome) = oneshot::channel();
        self.queue.try_send(WriterMessage::Commit(CommitJob { batch, answer, _room: room })).map_err(
            |error| match error {
                TrySendError::Full(_) => CommitError::Unavailable("its queue is full".to_owned()),
                TrySendError::Disconnected(_) => closed(),
            },
        )?;
        Ok(PendingCommit(outcome))
    }

    pub(crate) async fn get(&self, key: Vec<u8>) -> Result<Option<VersionedValue>, StoreError> {
        self.read(move |engine| engine.get(&key)).await
    }

    pub(crate) async fn holds(&self, prefixes: Vec<Vec<u8>>) -> Result<Vec<bool>, StoreError> {
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
    ) -> Result<ScanPage, StoreError> {
        self.read(move |engine| engine.scan(&prefix, after.as_deref(), limit)).await
    }

    pub(crate) async fn scan_packed(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: PageLimit,
    ) -> Result<PackedPage, StoreError> {
        // the caller reads past damage next, which notes it with its range of keys
        let read = self.call(move |engine| engine.scan_packed(&prefix, after.as_deref(), limit)).await?;
        read.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    pub(crate) async fn scan_past(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: PageLimit,
    ) -> Result<(ScanPage, Option<UnreadableRange>), StoreError> {
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
        self.shared.status()
    }

    /// Receives the number of attempts to reopen, each time that it grows.
    #[cfg(test)]
    pub(crate) fn tries(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.watch_tries()
    }

    pub(crate) async fn snapshot(&self) -> Result<EngineSnapshot, StoreError> {
        let failed = |reason: &str| StoreError::Unavailable(reason.to_owned());
        let (answer, begun) = oneshot::channel();
        self.queue.try_send(WriterMessage::Snapshot(answer)).map_err(|error| match error {
            TrySendError::Full(_) => failed("its queue is full"),
            TrySendError::Disconnected(_) => failed("the store is closed"),
        })?;
        let begun = begun.await.map_err(|_unanswered| failed("the store is closed"))?;
        let (identity, rescue) =
            begun.ok_or_else(|| failed("another snapshot is being read; wait for its end"))?;
        Ok(EngineSnapshot::new(identity, rescue, Arc::clone(&self.shared)))
    }

    /// Waits until the accepted commits are written, then releases the files. Later calls return success at
    /// once.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let failed = |reason: String| StoreError::Unavailable(reason);
        if let Err(TrySendError::Full(_)) = self.queue.try_send(WriterMessage::Close) {
            return Err(failed("its queue is full; try to close it again".to_owned()));
        }
        let Some(thread) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(())) => Ok(()),
            _ => Err(failed("the thread that writes did not end as it should".to_owned())),
        }
    }

    /// Reads; damage that is found is noted.
    async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(call).await?.map_err(|error| {
            let reason = self.shared.note_read_error(&error);
            StoreError::Unavailable(format!("{}: {reason}", self.dir.display()))
        })
    }

    /// Calls the engine. The inner error is the engine's own.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Result<T, EngineError>, StoreError> {
        let Some(engine) = self.shared.engine() else {
            let reason = self.shared.reason().unwrap_or_else(|| "it is being reopened".to_owned());
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
