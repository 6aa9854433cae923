//! The store on disk: a handle that sends commits to the writer thread and reads on threads that may block.

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
    committing::Committing,
    directory::Directory,
    durable,
    engine::{Engine, EngineError, Identity},
    errors::{CommitError, StoreError},
    fault::OpenError,
    kv::{Batch, Limit, Page, StoreStatus, Versioned},
    marker::{self, FORMAT_VERSION, Marker, State, check_format, sync_dir},
    past_damage::Gap,
    shared::Shared,
    snapshot::Snapshot,
    strip::Strip,
    witness::{self, Witness},
    writer::{Job, Message, Writer},
};

/// The queue's bound: this many shares of [`SHARE_BYTES`]. A commit takes one share or more, so it bounds both.
const QUEUE_SHARES: usize = 1024;
/// With [`QUEUE_SHARES`], 16 MiB of waiting commits.
const SHARE_BYTES: usize = 16 * 1024;
/// Places for messages that take no share.
const QUEUE_SPARE: usize = 16;

/// Where the store lies and how much memory it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The data directory; made if it does not exist.
    pub dir: PathBuf,
    /// The engine's cache, bytes. The engine may take four times as much.
    pub cache_bytes: u64,
}

/// A store in files. Clones share it; the files are let go after [`Self::close`], or some time after the last clone.
#[derive(Debug, Clone)]
pub struct SledStore {
    /// The data directory, for what is told of failures.
    dir: Arc<Path>,
    shared: Arc<Shared>,
    queue: SyncSender<Message>,
    room: Arc<Semaphore>,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl SledStore {
    /// Opens or makes the store. Blocks for as long as the engine needs to recover.
    ///
    /// # Errors
    /// Names the file and the way out. Only a directory that is empty or ours was changed.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open(&settings.dir)?;
        let (engine, identity) = open_engine(&directory, &marker, settings.cache_bytes)?;
        let (store_id, commit_sequence) = (identity.id, identity.sequence);
        let marker =
            Marker { store_id, format_version: FORMAT_VERSION, commit_sequence, state: State::Ready };
        marker.write(directory.path())?;
        let witness = Witness::begin(directory.path(), identity)?;
        let shared = Arc::new(Shared::new(engine, identity.sequence));
        let (queue, messages) = sync_channel(QUEUE_SHARES + QUEUE_SPARE);
        let begun = (identity, witness);
        let writer = Writer::new(directory, settings.cache_bytes, Arc::clone(&shared), messages, begun);
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(OpenError::io("start the writer thread of", &settings.dir))?;
        let room = Arc::new(Semaphore::new(QUEUE_SHARES));
        let dir = Arc::from(settings.dir.as_path());
        Ok(Self { dir, shared, queue, room, writer: Arc::new(Mutex::new(Some(thread))) })
    }

    pub(super) async fn begin(&self, batch: Batch) -> Result<Committing, CommitError> {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        batch.check_bounds()?;
        let shares = u32::try_from(batch.bytes().div_ceil(SHARE_BYTES).max(1)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(shares).await.map_err(|_closed| closed())?;
        let (answer, outcome) = oneshot::channel();
        self.queue.try_send(Message::Commit(Job { batch, answer, _room: room })).map_err(
            |error| match error {
                TrySendError::Full(_) => CommitError::Unavailable("its queue is full".to_owned()),
                TrySendError::Disconnected(_) => closed(),
            },
        )?;
        Ok(Committing(outcome))
    }

    pub(super) async fn get(&self, key: Vec<u8>) -> Result<Option<Versioned>, StoreError> {
        self.read(move |engine| engine.get(&key)).await
    }

    pub(super) async fn holds(&self, prefixes: Vec<Vec<u8>>) -> Result<Vec<bool>, StoreError> {
        self.read(move |engine| prefixes.iter().map(|prefix| engine.holds(prefix)).collect()).await
    }

    pub(super) async fn scan(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        self.read(move |engine| engine.scan(&prefix, after.as_deref(), limit)).await
    }

    pub(super) async fn strip(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: Limit,
    ) -> Result<Strip, StoreError> {
        self.read(move |engine| engine.strip(&prefix, after.as_deref(), limit)).await
    }

    pub(super) async fn scan_past(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: Limit,
    ) -> Result<(Page, Option<Gap>), StoreError> {
        self.read(move |engine| Ok(engine.scan_past(&prefix, after.as_deref(), limit))).await
    }

    pub(super) fn status(&self) -> StoreStatus {
        self.shared.status()
    }

    /// Tells of each try to take up writing again.
    #[cfg(test)]
    pub(super) fn tries(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.tries()
    }

    pub(super) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let failed = |reason: &str| StoreError::Unavailable(reason.to_owned());
        let (answer, begun) = oneshot::channel();
        self.queue.try_send(Message::Snapshot(answer)).map_err(|error| match error {
            TrySendError::Full(_) => failed("its queue is full"),
            TrySendError::Disconnected(_) => failed("the store is closed"),
        })?;
        let begun = begun.await.map_err(|_unanswered| failed("the store is closed"))?;
        let (identity, rescue) =
            begun.ok_or_else(|| failed("another snapshot is being read; wait for its end"))?;
        Ok(Snapshot::new(identity, rescue, Arc::clone(&self.shared)))
    }

    /// Finishes what was accepted, then lets go of the files. Later calls find it closed and are content.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let failed = |reason: String| StoreError::Unavailable(reason);
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Close) {
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

    async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(engine) = self.shared.engine() else {
            let reason = self.shared.reason().unwrap_or_else(|| "it is being reopened".to_owned());
            return Err(StoreError::Unavailable(reason));
        };
        let done = tokio::task::spawn_blocking(move || call(&engine)).await;
        let done = done.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        done.map_err(|error| StoreError::Unavailable(format!("{}: {error}", self.dir.display())))
    }
}

/// Opens the engine, compares it with its marker, and proves that a flush reaches the disk.
fn open_engine(
    directory: &Directory,
    marker: &Marker,
    cache_bytes: u64,
) -> Result<(Engine, Identity), OpenError> {
    let (engine, identity) = open_compared(directory, marker, cache_bytes)?;
    prove_durable(&directory.engine(), &engine, Identity { format: FORMAT_VERSION, ..identity })?;
    Ok((engine, Identity { format: FORMAT_VERSION, ..identity }))
}

/// Opens the engine and compares it with its marker; writes nothing.
pub(super) fn open_compared(
    directory: &Directory,
    marker: &Marker,
    cache_bytes: u64,
) -> Result<(Engine, Identity), OpenError> {
    let failed = |error: EngineError| OpenError::Engine { dir: directory.engine(), reason: error.0 };
    let engine = Engine::open(&directory.engine(), cache_bytes).map_err(failed)?;
    let identity = reconcile(directory, marker, engine.identity().map_err(failed)?)?;
    Ok((engine, identity))
}

/// Writes the identity of the engine in `dir` and proves that it went to the disk.
pub(super) fn prove_durable(dir: &Path, engine: &Engine, identity: Identity) -> Result<(), OpenError> {
    let before = durable::syncs();
    let applied = engine.apply(&[], identity);
    applied.map_err(|error| OpenError::Engine { dir: dir.to_owned(), reason: error.0 })?;
    if !durable::proven_since(before) {
        return Err(OpenError::NotDurable { dir: dir.to_owned() });
    }
    sync_dir(dir)
}

/// The identity to go on with, if the engine holds at least what the marker and the witness remember.
pub(super) fn reconcile(
    directory: &Directory,
    marker: &Marker,
    found: Option<Identity>,
) -> Result<Identity, OpenError> {
    let fresh = Identity { format: FORMAT_VERSION, id: marker.store_id, sequence: 0 };
    let emptied = |what: String| Err(OpenError::Emptied { dir: directory.path().to_owned(), what });
    let witnessed = Witness::read(directory.path(), marker.store_id)?.unwrap_or(0);
    let known = marker.commit_sequence.max(witnessed);
    match found {
        None if marker.state == State::Creating => Ok(fresh),
        None => emptied(format!("the store is empty, after {known} commits by plimsoll.json")),
        Some(found) => {
            check_format(directory.path(), found.format)?;
            if found.id != marker.store_id {
                let (found, marker) = (found.id, marker.store_id);
                return emptied(format!("the store has the id {found}, plimsoll.json says {marker}"));
            }
            if found.sequence < known {
                let file = if witnessed == known { witness::FILE } else { marker::FILE };
                let what = format!("the store ends at commit {}, {file} knows of {known}", found.sequence);
                return Err(OpenError::Behind { dir: directory.path().to_owned(), what });
            }
            Ok(found)
        }
    }
}
