//! The one task that writes to the database.
//!
//! It takes commits from its queue, puts them into one transaction, and answers all of them once that is committed. Meanwhile the queue
//! collects the next group. If the connection breaks, the task connects again, finds out what became of the group, and repeats it if it is
//! not there. Callers wait for at most [`COMMIT_WITHIN`]; then the store is read-only: the task refuses commits at once, and goes on trying
//! once a second.

use std::{pin::pin, sync::Arc, time::Duration};

use deadpool_postgres::Pool;
use tokio::{
    select,
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    checks::check_server,
    connection::Connection,
    errors::PostgresError,
    lease::HeartbeatTask,
    opening::{self, Takeover},
    pool::reading_pool,
    reopening,
    schema::HeldStore,
    settings::Target,
    shared::SharedStatus,
    transaction::{GroupWrites, WriterSession},
};
use crate::{
    bounds::BATCH_BYTES,
    committing::{CommitJob, GROUP_COMMITS},
    errors::CommitError,
    kv::{CommitReceipt, StoreIdentity, StoreMode},
};

/// How long the callers of a group wait while the database is away.
const COMMIT_WITHIN: Duration = Duration::from_secs(10);
/// Interval between attempts while the store is read-only.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Shortest pause between two attempts at a group; doubled each time, up to [`RETRY_EVERY`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the size of the tables is read, and old numbers are removed.
const MAINTAIN_EVERY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How long that may take: commits wait for it.
const MAINTAIN_WITHIN: Duration = Duration::from_secs(1);

/// A message from a handle of the store to the writer.
#[derive(Debug)]
pub(super) enum WriterMessage {
    Commit(CommitJob),
    /// Ends the task, after it has handled earlier messages.
    Close,
}

/// How long giving the lease up may take at the end.
const GIVE_UP_WITHIN: Duration = Duration::from_millis(1500);

/// State of the task that writes.
pub(super) struct Writer {
    target: Target,
    shared: Arc<SharedStatus>,
    /// A message that was taken from the queue and did not fit into the last group.
    carried_over: Option<WriterMessage>,
    /// The store, with the number of the last commit that is known to be there.
    held: HeldStore,
    beat: HeartbeatTask,
    /// `None` after a failure.
    session: Option<WriterSession>,
    /// Connections that read, to be replaced when this one is.
    readers: Pool,
    /// Number of a group that was sent and had no answer.
    in_flight: Option<i64>,
    /// Whether no attempt can help any more.
    is_lost: bool,
    last_try: Instant,
    next_maintenance: Instant,
}

impl Writer {
    /// Opens the store.
    pub(super) async fn open(target: Target, takeover: Takeover) -> Result<Self, PostgresError> {
        let opened = opening::open(&target, takeover).await;
        let (held, session) = opened.map_err(|error| target.named(error))?;
        let now = Instant::now();
        let readers = reading_pool(&target, held.identity.id)?;
        let shared = Arc::new(SharedStatus::new(&held));
        Ok(Self {
            beat: HeartbeatTask::begin(target.clone(), held.epoch, Arc::clone(&shared)),
            target,
            shared,
            carried_over: None,
            held,
            session: Some(session),
            readers,
            in_flight: None,
            is_lost: false,
            last_try: now,
            next_maintenance: now,
        })
    }

    /// The store's identity.
    pub(super) fn identity(&self) -> StoreIdentity {
        self.held.identity
    }

    /// Connections that read, to the same store.
    pub(super) fn readers(&self) -> Pool {
        self.readers.clone()
    }

    /// The status that handles read.
    pub(super) fn shared(&self) -> Arc<SharedStatus> {
        Arc::clone(&self.shared)
    }

    /// Handles messages until the queue is closed or its sender is dropped.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<WriterMessage>) {
        loop {
            let message = match self.carried_over.take() {
                Some(message) => Ok(Some(message)),
                None => timeout(RETRY_EVERY, queue.recv()).await,
            };
            match message {
                Ok(Some(WriterMessage::Commit(first))) => self.write_group(&mut queue, first).await,
                Ok(Some(WriterMessage::Close) | None) => break,
                Err(_idle) => {}
            }
            self.recover_if_broken(&mut queue).await;
            self.maintain().await;
        }
        let reason = "the store is closed".to_owned();
        self.shared.set_mode(StoreMode::ReadOnly { reason: reason.clone() });
        queue.close();
        while let Some(message) = queue.recv().await {
            refuse(message, &reason);
        }
        if !matches!(timeout(GIVE_UP_WITHIN, self.give_up()).await, Ok(Ok(()))) {
            tracing::debug!("the lease was not given up; a server that waits takes it some seconds later");
        }
    }

    /// Gives the lease up, over a new connection if there is none.
    async fn give_up(&mut self) -> Result<(), PostgresError> {
        let connection = match self.session.take() {
            Some(session) => session.connection,
            None => Connection::open(&self.target).await?,
        };
        self.beat.give_up(&connection.client, self.held.epoch).await
    }

    /// Handles one group of commits: takes it from the queue, writes it, and answers its callers.
    async fn write_group(&mut self, queue: &mut mpsc::Receiver<WriterMessage>, first: CommitJob) {
        let begin = Instant::now();
        let group = self.gather_group(queue, first);
        let written = match self.shared.reason() {
            Some(reason) => Err(reason),
            None => self.write(&group).await.map_err(|error| self.go_read_only(&error)),
        };
        match written {
            Ok(last) => {
                if let Some(session) = &self.session {
                    self.target.kept_position.note(self.held.position(&session.connection.primary));
                }
                self.shared.note_committed(last.cast_unsigned(), begin.elapsed());
                let first = last.cast_unsigned() - group.len() as u64 + 1;
                for (version, job) in (first..).zip(group) {
                    job.answer(Ok(CommitReceipt { version }));
                }
            }
            Err(reason) => {
                for job in group {
                    job.answer(Err(CommitError::Unavailable(reason.clone())));
                }
            }
        }
    }

    /// Takes commits from the queue, up to the limits of a group.
    fn gather_group(
        &mut self,
        queue: &mut mpsc::Receiver<WriterMessage>,
        first: CommitJob,
    ) -> Vec<CommitJob> {
        let mut bytes = first.batch.bytes();
        let mut group = vec![first];
        while group.len() < GROUP_COMMITS {
            match queue.try_recv() {
                Ok(WriterMessage::Commit(job)) if bytes + job.batch.bytes() <= BATCH_BYTES => {
                    bytes += job.batch.bytes();
                    group.push(job);
                }
                Ok(message) => {
                    self.carried_over = Some(message);
                    break;
                }
                Err(_empty) => break,
            }
        }
        group
    }

    /// Writes a group; returns the number of its last commit. After an error its fate may be unknown.
    async fn write(&mut self, group: &[CommitJob]) -> Result<i64, PostgresError> {
        let (deadline, mut pause) = (Instant::now() + COMMIT_WITHIN, FIRST_PAUSE);
        let mut sent = None;
        loop {
            let tried = timeout_at(deadline, self.attempt(group, &mut sent)).await;
            let error = match tried {
                Ok(Ok(last)) => return Ok(last),
                Ok(Err(error)) => error,
                Err(_elapsed) => no_answer(),
            };
            // also ends a transaction that still waits, once the server sees that its client has gone
            self.session = None;
            if !matches!(error, PostgresError::Passing(_)) || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(%error, "a commit is tried again");
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_EVERY);
        }
    }

    /// Writes a group once. `sent`: the number with which an earlier attempt sent it.
    async fn attempt(&mut self, group: &[CommitJob], sent: &mut Option<i64>) -> Result<i64, PostgresError> {
        if self.session.is_none() {
            self.session = Some(self.connect_again().await?);
        }
        let Some(session) = &self.session else { return Err(PostgresError::Passing("no connection".into())) };
        if let Some(number) = self.in_flight {
            let is_applied = session.settle(self.held.epoch, number).await?;
            self.shared.note_fate(number, is_applied);
            (self.held.identity.sequence, self.in_flight) = (number.cast_unsigned(), None);
            if is_applied && *sent == Some(number) {
                return Ok(number);
            }
        }
        let writes = GroupWrites::of(group, self.held.identity.sequence.cast_signed());
        (self.in_flight, *sent) = (Some(writes.last), Some(writes.last));
        session.apply(self.held.epoch, &writes).await?;
        (self.held.identity.sequence, self.in_flight) = (writes.last.cast_unsigned(), None);
        Ok(writes.last)
    }

    /// Connects again, and checks that the store is the one that was opened and has all that was acknowledged.
    async fn connect_again(&self) -> Result<WriterSession, PostgresError> {
        let connection = Connection::open(&self.target).await?;
        check_server(&connection.client).await.map_err(PostgresError::passing)?;
        reopening::check_store(&connection.client, &self.held, &self.shared).await?;
        self.target.kept_position.note(self.held.position(&connection.primary));
        // those that are open may be to a primary that is none any more
        self.readers.retain(|_, _| false);
        WriterSession::prepare(connection).await
    }

    /// Makes the store read-only; returns the reason.
    fn go_read_only(&mut self, error: &PostgresError) -> String {
        let error = self.target.named(error.clone());
        self.is_lost = !matches!(error, PostgresError::Passing(_));
        let reason = error.to_string();
        if self.shared.reason().as_ref() != Some(&reason) {
            tracing::error!(reason, "the store is read-only");
        }
        self.last_try = Instant::now();
        self.shared.set_mode(match error {
            PostgresError::Taken(_) => StoreMode::Taken { reason: reason.clone() },
            PostgresError::Passing(_) | PostgresError::Lasting(_) => {
                StoreMode::ReadOnly { reason: reason.clone() }
            }
        });
        reason
    }

    /// Connects again if the store is read-only, or if the database has ended the connection.
    async fn recover_if_broken(&mut self, queue: &mut mpsc::Receiver<WriterMessage>) {
        let is_unusable = |Connection { client, primary, .. }: &Connection| {
            client.is_closed() || self.target.last_primary.has_replaced(primary)
        };
        let is_closed = self.session.as_ref().is_none_or(|session| is_unusable(&session.connection));
        let is_broken = (is_closed || self.shared.reason().is_some()) && self.carried_over.is_none();
        if is_broken && !self.is_lost && !self.shared.is_taken() && self.last_try.elapsed() >= RETRY_EVERY {
            self.recover(queue).await;
        }
    }

    /// Tries to become writable again: a group without an answer is settled with an empty group after it. Refuses commits meanwhile, if the
    /// store is read-only.
    async fn recover(&mut self, queue: &mut mpsc::Receiver<WriterMessage>) {
        (self.session, self.last_try) = (None, Instant::now());
        let shared = Arc::clone(&self.shared);
        let tried = refuse_meanwhile(timeout(COMMIT_WITHIN, self.settle_again()), queue, &shared).await;
        match tried.map(|tried| tried.unwrap_or_else(|_elapsed| Err(no_answer()))) {
            Ok(Ok(())) => {
                tracing::info!(database = self.target.name, "the store is writable again");
                self.shared.set_mode(StoreMode::Writable);
            }
            Ok(Err(error)) => {
                self.session = None;
                self.go_read_only(&error);
            }
            Err(close) => self.carried_over = Some(close),
        }
        self.shared.note_try();
    }

    async fn settle_again(&mut self) -> Result<(), PostgresError> {
        let session = self.connect_again().await?;
        if let Some(number) = self.in_flight {
            let is_applied = session.settle(self.held.epoch, number).await?;
            self.shared.note_fate(number, is_applied);
            (self.held.identity.sequence, self.in_flight) = (number.cast_unsigned(), None);
        }
        if self.shared.reason().is_some() {
            session.probe_room().await?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Reads the size of the tables and removes old numbers, if the last time was long enough ago.
    async fn maintain(&mut self) {
        let Some(session) = self.session.as_ref().filter(|_| Instant::now() >= self.next_maintenance) else {
            return;
        };
        self.next_maintenance = Instant::now() + MAINTAIN_EVERY;
        let last = self.held.identity.sequence.cast_signed();
        let size = "SELECT pg_total_relation_size('plimsoll.entry')";
        let maintained = timeout(MAINTAIN_WITHIN, async {
            session.prune(last).await?;
            let row = session.connection.client.query_one(size, &[]).await?;
            self.shared.set_bytes(row.get::<_, i64>(0).cast_unsigned());
            Ok::<_, PostgresError>(())
        });
        // a broken connection would fail the next commit; without it that one connects again
        if !matches!(maintained.await, Ok(Ok(()))) {
            self.session = None;
        }
    }
}

/// Makes the store read-only however the task ends: without the writer no commit can succeed.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.shared.reason().is_none() {
            let reason = "the task that writes has ended; restart the server".to_owned();
            self.shared.set_mode(StoreMode::ReadOnly { reason });
        }
    }
}

/// Waits for a future, and refuses commits meanwhile if the store is read-only.
///
/// # Errors
/// A message of another kind came, which ends the wait.
async fn refuse_meanwhile<T>(
    future: impl Future<Output = T>,
    queue: &mut mpsc::Receiver<WriterMessage>,
    shared: &SharedStatus,
) -> Result<T, WriterMessage> {
    let mut future = pin!(future);
    loop {
        let reason = shared.reason();
        let message = select! {
            outcome = &mut future => return Ok(outcome),
            Some(message) = queue.recv(), if reason.is_some() => message,
        };
        if let Some(other) = refuse(message, &reason.unwrap_or_default()) {
            return Err(other);
        }
    }
}

/// Answers a commit that is not written; returns any other message.
fn refuse(message: WriterMessage, reason: &str) -> Option<WriterMessage> {
    let WriterMessage::Commit(job) = message else { return Some(message) };
    job.answer(Err(CommitError::Unavailable(reason.to_owned())));
    None
}

fn no_answer() -> PostgresError {
    PostgresError::Passing(format!(
        "no answer within {} s: another session may hold a lock on the tables of the schema plimsoll, or the synchronous standby may be \
         away (look into pg_stat_activity)",
        COMMIT_WITHIN.as_secs()
    ))
}
