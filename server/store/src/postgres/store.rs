//! The store in a database: a handle that sends commits to the writer, and reads over connections of its own.

use std::{sync::Arc, thread, time::Duration};

use deadpool_postgres::{Object, Pool, PoolError, TimeoutType};
use tokio::{
    runtime::{Builder, Handle},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tokio_postgres::Row;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    errors::{PostgresError, describe, is_damage, is_disconnect},
    opening::Takeover,
    pool::reading_pool,
    reading,
    settings::{PostgresSettings, Target},
    shared::DatabaseStatus,
    snapshot::DatabaseSnapshot,
    writer::Writer,
};
use crate::{
    committing::{CLOSED, CommitQueue, Message, PendingCommit},
    errors::{CommitError, StoreError},
    found_damage::FoundDamage,
    group_commit::GroupCommit,
    kv::{Batch, PageLimit, ScanPage, StoreIdentity, StoreStatus, VersionedValue},
    packed_page::PackedPage,
};

/// Longest wait for the answer to a read.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// How long a snapshot may lie idle in its transaction while its reader is slow.
const SNAPSHOT_IDLE: &str = "10min";
/// Threads of the connections.
const THREADS: usize = 2;

/// A store in a PostgreSQL database. Its clones share it.
#[derive(Debug, Clone)]
pub struct PostgresStore(Arc<PostgresStoreState>);

#[derive(Debug)]
struct PostgresStoreState {
    /// Name of the database, for error texts.
    name: String,
    identity: StoreIdentity,
    shared: Arc<DatabaseStatus>,
    found_damage: FoundDamage,
    queue: CommitQueue<Writer>,
    readers: Pool,
    /// Connections of snapshots, which may be idle for longer.
    snapshots: Pool,
    one_snapshot: Arc<Semaphore>,
    /// The threads of the connections; they end with the writer.
    runtime: Handle,
}

impl PostgresStore {
    /// Opens the store, or creates its tables, and takes it from a server that has it open. Blocks while it connects.
    /// Errors: the text names the setting and says what to do.
    pub fn open(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        let (opening, parts) = Self::begin_to_open(settings, Takeover::AtOnce)?;
        // the caller's thread may be one of a runtime, on which this must not wait
        let opened = thread::scope(|scope| scope.spawn(|| opening.blocking_recv()).join());
        let opened = opened.map_err(|_panicked| ended_early())?;
        Self::with(opened, parts)
    }

    /// Opens the store like [`Self::open`], but waits while another server has it open. `on_holder` gets the address and the start of
    /// that server, if there is one. `None` once `stop` is cancelled; a lease that was taken then is given up first.
    /// Errors: the text names the setting and says what to do.
    pub async fn open_when_free(
        settings: &PostgresSettings,
        on_holder: impl Fn(&str) + Send + 'static,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, PostgresError> {
        let ends = stop.child_token();
        // also if this future is dropped
        let _guard = ends.clone().drop_guard();
        let takeover = Takeover::WhenFree { on_holder: Box::new(on_holder), ends };
        let (opening, parts) = Self::begin_to_open(settings, takeover)?;
        let opened = Self::with(opening.await, parts);
        if !stop.is_cancelled() {
            return opened.map(Some);
        }
        if let Ok(store) = opened
            && let Err(error) = store.close().await
        {
            tracing::debug!(%error, "the store was not closed");
        }
        Ok(None)
    }

    /// Starts the thread that opens the store and writes to it.
    fn begin_to_open(
        settings: &PostgresSettings,
        takeover: Takeover,
    ) -> Result<(oneshot::Receiver<OpenResult>, (Target, CommitQueue<Writer>)), PostgresError> {
        let target = Target::read(settings)?;
        let (opened, opening) = oneshot::channel();
        let of_writer = target.clone();
        let run = move |messages| run_writer(of_writer, messages, takeover, opened);
        let queue = CommitQueue::start(run).map_err(no_threads)?;
        Ok((opening, (target, queue)))
    }

    fn with(
        opened: Result<OpenResult, oneshot::error::RecvError>,
        (target, queue): (Target, CommitQueue<Writer>),
    ) -> Result<Self, PostgresError> {
        let (identity, shared, readers, runtime) = opened.map_err(|_ended| ended_early())??;
        let snapshots = reading_pool(&target.with_idle_limit(SNAPSHOT_IDLE), identity.id)?;
        Ok(Self(Arc::new(PostgresStoreState {
            name: target.name,
            identity,
            shared,
            found_damage: FoundDamage::in_database(),
            queue,
            readers,
            snapshots,
            one_snapshot: Arc::new(Semaphore::new(1)),
            runtime,
        })))
    }

    pub(crate) async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        self.0.queue.begin(batch).await
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<VersionedValue>, StoreError> {
        let key: Arc<[u8]> = key.into();
        self.read(move |client| {
            let key = Arc::clone(&key);
            async move { reading::get(&client, &key).await }
        })
        .await
    }

    pub(crate) async fn holds(&self, prefixes: Vec<Vec<u8>>) -> Result<Vec<bool>, StoreError> {
        let prefixes = Arc::new(prefixes);
        self.read(move |client| {
            let prefixes = Arc::clone(&prefixes);
            async move { reading::holds(&client, &prefixes).await }
        })
        .await
    }

    pub(crate) async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<ScanPage, StoreError> {
        self.page(prefix, after, limit, |rows, _limit| reading::scan_page(rows)).await
    }

    pub(crate) async fn scan_packed(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<PackedPage, StoreError> {
        self.page(prefix, after, limit, reading::packed_page).await
    }

    /// Reads the rows of a page, and makes a page of them.
    async fn page<T: Send + 'static>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
        make: fn((Vec<Row>, bool), PageLimit) -> T,
    ) -> Result<T, StoreError> {
        let range = Arc::new((prefix.to_vec(), after.map(<[u8]>::to_vec)));
        self.read(move |client| {
            let range = Arc::clone(&range);
            async move {
                let rows = reading::page_rows(&client, &range.0, range.1.as_deref(), limit).await?;
                Ok(make(rows, limit))
            }
        })
        .await
    }

    pub(crate) fn found_damage(&self) -> FoundDamage {
        self.0.found_damage.clone()
    }

    pub(crate) fn status(&self) -> StoreStatus {
        self.0.shared.read()
    }

    pub(crate) async fn snapshot(&self) -> Result<DatabaseSnapshot, StoreError> {
        let busy = "another snapshot is being read; wait for its end";
        let only = Arc::clone(&self.0.one_snapshot).try_acquire_owned();
        let only = only.map_err(|_taken| StoreError::Unavailable(busy.to_owned()))?;
        let (pool, identity, found_damage) = (self.0.snapshots.clone(), self.0.identity, self.found_damage());
        self.on_threads(async move {
            let begun = DatabaseSnapshot::begin(pool.get().await?, identity, found_damage, only);
            let begun = timeout(READ_WITHIN, begun).await;
            begun.map_err(|_elapsed| PoolError::Timeout(TimeoutType::Recycle))?.map_err(PoolError::Backend)
        })
        .await?
        .map_err(|error| self.unavailable(&error))
    }

    /// Waits until the accepted commits are written, then ends the connections. Later calls return success at once.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let end_reading = || {
            self.0.readers.close();
            self.0.snapshots.close();
        };
        self.0.queue.close(end_reading).await
    }

    /// Reads over a connection. If the database has ended that one meanwhile, reads once more over another one.
    async fn read<T, F>(
        &self,
        call: impl Fn(Arc<Object>) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, tokio_postgres::Error>> + Send,
    {
        let pool = self.0.readers.clone();
        let reading = async move {
            match read_once(&pool, &call).await {
                Err(PoolError::Backend(error)) if is_disconnect(&error) => read_once(&pool, &call).await,
                outcome => outcome,
            }
        };
        self.on_threads(reading).await?.map_err(|error| self.unavailable(&error))
    }

    /// Runs a task on the threads of the connections, which all live there: they must not end with the caller's.
    async fn on_threads<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = TaskTracker::new().spawn_on(task, &self.0.runtime).await;
        ended.map_err(|_ended| StoreError::Unavailable(CLOSED.to_owned()))
    }

    fn unavailable(&self, error: &PoolError) -> StoreError {
        let reason = match error {
            PoolError::Backend(error) if is_damage(error) => {
                self.0.found_damage.note_and_explain(&describe(error))
            }
            PoolError::Backend(error) => describe(error),
            PoolError::Timeout(TimeoutType::Recycle) => {
                format!("no answer within {} s", READ_WITHIN.as_secs())
            }
            PoolError::Closed => return StoreError::Unavailable(CLOSED.to_owned()),
            other => other.to_string(),
        };
        StoreError::Unavailable(format!("PostgreSQL at {}: {reason}", self.0.name))
    }
}

/// Reads over a connection. One without an answer is ended, and with it what the database still does for it.
async fn read_once<T, F>(pool: &Pool, call: &(impl Fn(Arc<Object>) -> F + Sync)) -> Result<T, PoolError>
where
    F: Future<Output = Result<T, tokio_postgres::Error>> + Send,
{
    let client = Arc::new(pool.get().await?);
    let read = timeout(READ_WITHIN, call(Arc::clone(&client))).await;
    match read {
        Ok(outcome) => outcome.map_err(PoolError::Backend),
        Err(_elapsed) => {
            drop(Arc::into_inner(client).map(Object::take));
            Err(PoolError::Timeout(TimeoutType::Recycle))
        }
    }
}

/// What a writer gives out once it has opened the store.
type OpenResult = Result<(StoreIdentity, Arc<DatabaseStatus>, Pool, Handle), PostgresError>;

/// Opens the store, and writes until the queue is closed. The other threads of the connections end with it.
fn run_writer(
    target: Target,
    messages: mpsc::Receiver<Message<Writer>>,
    takeover: Takeover,
    opened: oneshot::Sender<OpenResult>,
) {
    // a caller that has gone needs no answer
    let answer = |opened: oneshot::Sender<OpenResult>, outcome| drop(opened.send(outcome));
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(THREADS).thread_name("store-database").enable_all();
    let runtime = match threads.build() {
        Ok(runtime) => runtime,
        Err(error) => return answer(opened, Err(no_threads(error))),
    };
    runtime.block_on(async {
        match Writer::open(target, takeover).await {
            Ok(writer) => {
                let shared = writer.shared();
                let status = Arc::clone(&shared.status);
                answer(opened, Ok((writer.identity(), shared, writer.readers(), Handle::current())));
                GroupCommit::new(writer, status, messages).run().await;
            }
            Err(error) => answer(opened, Err(error)),
        }
    });
    runtime.shutdown_background();
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_threads(error: std::io::Error) -> PostgresError {
    PostgresError::Passing(format!("no thread for the connections to the database: {error}"))
}

fn ended_early() -> PostgresError {
    PostgresError::Passing("the writer ended early".to_owned())
}
