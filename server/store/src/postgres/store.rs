//! The store in a database: a handle that sends commits to the writer, and reads over connections of its own.

use std::{sync::Arc, thread};

use deadpool_postgres::Pool;
use tokio::{
    runtime::{Builder, Handle},
    sync::{Semaphore, mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{
    errors::{PostgresError, PostgresResult},
    opening::Takeover,
    pool::reading_pool,
    reader::{DatabaseReader, Source, on_threads},
    settings::{PostgresSettings, Target},
    shared::DatabaseStatus,
    view::DatabaseSnapshot,
    writer::Writer,
};
use crate::{
    committing::{CommitQueue, Message, PendingCommit},
    errors::{CommitError, StoreError, StoreResult},
    found_damage::FoundDamage,
    group_commit::GroupCommit,
    kv::{Batch, StoreIdentity, StoreStatus},
};

/// Threads of the connections.
const THREADS: usize = 2;

/// A store in a PostgreSQL database. Its clones share it.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pub(crate) reader: Arc<DatabaseReader>,
    state: Arc<PostgresStoreState>,
}

#[derive(Debug)]
struct PostgresStoreState {
    identity: StoreIdentity,
    shared: Arc<DatabaseStatus>,
    found_damage: FoundDamage,
    queue: CommitQueue<Writer>,
    readers: Pool,
    /// Makes a connection for each snapshot.
    snapshots: Pool,
    one_snapshot: Arc<Semaphore>,
    /// The threads of the connections; they end with the writer.
    runtime: Handle,
}

impl PostgresStore {
    /// Opens the store, or creates its tables, and takes it from a server that has it open. Blocks while it connects.
    /// Errors: the text names the setting and says what to do.
    pub fn open(settings: &PostgresSettings) -> PostgresResult<Self> {
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
    ) -> PostgresResult<Option<Self>> {
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
    ) -> PostgresResult<(oneshot::Receiver<OpenResult>, OpeningStore)> {
        let target = Target::read(settings)?;
        let (opened, opening) = oneshot::channel();
        let of_writer = target.clone();
        let run = move |messages| run_writer(of_writer, messages, takeover, opened);
        let queue = CommitQueue::start(run).map_err(no_threads)?;
        Ok((opening, (target, queue)))
    }

    fn with(
        opened: Result<OpenResult, oneshot::error::RecvError>,
        (target, queue): OpeningStore,
    ) -> PostgresResult<Self> {
        let (identity, shared, readers, runtime) = opened.map_err(|_ended| ended_early())??;
        let snapshots = reading_pool(&target, identity.id)?;
        let found_damage = FoundDamage::in_database();
        let source = Source::Pool(readers.clone(), runtime.clone(), found_damage.clone());
        let reader = Arc::new(DatabaseReader { name: target.name, source });
        let state = Arc::new(PostgresStoreState {
            identity,
            shared,
            found_damage,
            queue,
            readers,
            snapshots,
            one_snapshot: Arc::new(Semaphore::new(1)),
            runtime,
        });
        Ok(Self { reader, state })
    }

    pub(crate) async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        self.state.queue.begin(batch).await
    }

    pub(crate) fn found_damage(&self) -> FoundDamage {
        self.state.found_damage.clone()
    }

    pub(crate) fn status(&self) -> StoreStatus {
        self.state.shared.read()
    }

    pub(crate) async fn snapshot(&self) -> StoreResult<DatabaseSnapshot> {
        let busy = "another snapshot is being read; wait for its end";
        let only = Arc::clone(&self.state.one_snapshot).try_acquire_owned();
        let only = only.map_err(|_taken| StoreError::Unavailable(busy.to_owned()))?;
        let (pool, name) = (self.state.snapshots.clone(), self.reader.name.clone());
        let begun = DatabaseSnapshot::begin(pool, name, self.state.identity, (self.found_damage(), only));
        let begun = on_threads(&self.state.runtime, begun).await.and_then(|begun| Ok(begun?));
        begun.map_err(|failure| self.reader.error(failure))
    }

    /// Waits until the accepted commits are written, then ends the connections. Later calls return success at once.
    pub(crate) async fn close(&self) -> StoreResult<()> {
        let end_reading = || {
            self.state.readers.close();
            self.state.snapshots.close();
        };
        self.state.queue.close(end_reading).await
    }
}

/// A store whose thread opens it.
type OpeningStore = (Target, CommitQueue<Writer>);

/// What a writer gives out once it has opened the store.
type OpenResult = PostgresResult<(StoreIdentity, Arc<DatabaseStatus>, Pool, Handle)>;

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
                let (shared, readers) = (Arc::clone(&writer.shared), writer.readers.clone());
                let status = Arc::clone(&shared.status);
                answer(opened, Ok((writer.held.identity, shared, readers, Handle::current())));
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
