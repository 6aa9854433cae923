//! What the task that writes does with the database: writes a group of commits in one transaction.
//!
//! If the connection breaks, it connects again, finds out what became of the group, and repeats it if it is not there. Callers wait for at
//! most [`COMMIT_WITHIN`]; then the store is read-only.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::Pool;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    checks::check_server,
    connection::Connection,
    errors::{PostgresError, PostgresResult},
    lease::HeartbeatTask,
    opening::{self, Takeover},
    pool::reading_pool,
    reopening,
    schema::HeldStore,
    settings::Target,
    shared::DatabaseStatus,
    transaction::{GroupWrites, WriterSession},
};
use crate::{
    committing::CommitJob,
    group_commit::{GroupEngine, RETRY_EVERY, WrittenGroup},
    kv::{CommitReceipt, StoreMode},
};

/// How long the callers of a group wait while the database is away.
const COMMIT_WITHIN: Duration = Duration::from_secs(10);
/// Shortest pause between two attempts at a group; doubled each time, up to [`RETRY_EVERY`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the size of the tables is read, and old numbers are removed.
const MAINTAIN_EVERY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How long that may take: commits wait for it.
const MAINTAIN_WITHIN: Duration = Duration::from_secs(1);

/// Size of the table of entries with its index, bytes.
pub(super) const SELECT_SIZE: &str = "SELECT pg_total_relation_size('plimsoll.entry')";
/// How long giving the lease up may take at the end.
const GIVE_UP_WITHIN: Duration = Duration::from_millis(1500);

/// What the task that writes has of a store in a database.
pub(super) struct Writer {
    target: Target,
    pub(super) shared: Arc<DatabaseStatus>,
    /// The store, with the number of the last commit that is known to be there.
    pub(super) held: HeldStore,
    beat: HeartbeatTask,
    /// `None` after a failure.
    session: Option<WriterSession>,
    /// Connections that read, to be replaced when this one is.
    pub(super) readers: Pool,
    /// Number of a group that was sent and had no answer.
    in_flight: Option<i64>,
    /// Whether no attempt can help any more.
    is_lost: bool,
    next_maintenance: Instant,
}

impl Writer {
    /// Opens the store.
    pub(super) async fn open(target: Target, takeover: Takeover) -> PostgresResult<Self> {
        let opened = opening::open(&target, takeover).await;
        let (held, session) = opened.map_err(|error| target.named(error))?;
        let readers = reading_pool(&target, held.identity.id)?;
        let shared = Arc::new(DatabaseStatus::new(&held));
        Ok(Self {
            beat: HeartbeatTask::begin(target.clone(), held.epoch, Arc::clone(&shared)),
            target,
            shared,
            held,
            session: Some(session),
            readers,
            in_flight: None,
            is_lost: false,
            next_maintenance: Instant::now(),
        })
    }

    /// Gives the lease up, over a new connection if there is none.
    async fn give_up(&mut self) -> PostgresResult<()> {
        let connection = match self.session.take() {
            Some(session) => session.connection,
            None => Connection::open(&self.target).await?,
        };
        self.beat.give_up(&connection.client, self.held.epoch).await
    }

    /// Writes a group; returns the number of its last commit. After an error its fate may be unknown.
    async fn write_within(&mut self, group: &[CommitJob]) -> PostgresResult<i64> {
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
    async fn attempt(&mut self, group: &[CommitJob], sent: &mut Option<i64>) -> PostgresResult<i64> {
        if self.session.is_none() {
            let (session, applied) = self.connect_and_settle().await?;
            self.session = Some(session);
            if let Some(number) = applied.filter(|_| applied == *sent) {
                return Ok(number);
            }
        }
        let Some(session) = &self.session else { return Err(PostgresError::Passing("no connection".into())) };
        let writes = GroupWrites::of(group, self.held.identity.sequence.cast_signed());
        (self.in_flight, *sent) = (Some(writes.last), Some(writes.last));
        session.apply(self.held.epoch, &writes).await?;
        (self.held.identity.sequence, self.in_flight) = (writes.last.cast_unsigned(), None);
        Ok(writes.last)
    }

    /// Connects again, and checks that the store is the one that was opened and has all that was acknowledged.
    async fn connect_again(&self) -> PostgresResult<WriterSession> {
        let connection = Connection::open(&self.target).await?;
        check_server(&connection.client).await.map_err(PostgresError::passing)?;
        reopening::check_store(&connection.client, &self.held, &self.shared).await?;
        self.target.kept_position.note(self.held.position(&connection.primary));
        // those that are open may be to a primary that is none any more
        self.readers.retain(|_, _| false);
        WriterSession::prepare(connection).await
    }

    /// Connects again, and settles a group that had no answer; returns its number if it is there.
    async fn connect_and_settle(&mut self) -> PostgresResult<(WriterSession, Option<i64>)> {
        let session = self.connect_again().await?;
        let Some(number) = self.in_flight else { return Ok((session, None)) };
        let is_applied = session.settle(self.held.epoch, number).await?;
        self.shared.note_fate(number, is_applied);
        (self.held.identity.sequence, self.in_flight) = (number.cast_unsigned(), None);
        Ok((session, is_applied.then_some(number)))
    }

    async fn try_to_recover(&mut self) -> PostgresResult<()> {
        let (session, _applied) = self.connect_and_settle().await?;
        if self.shared.status.refusal().is_some() {
            session.probe_room().await?;
        }
        self.session = Some(session);
        Ok(())
    }
}

impl GroupEngine for Writer {
    type Error = PostgresError;
    const COMMITS_WAIT: bool = false;
    const ENDED: &str = "the task that writes has ended; restart the server";

    async fn write(&mut self, group: &[CommitJob]) -> PostgresResult<WrittenGroup> {
        let last = self.write_within(group).await?.cast_unsigned();
        if let Some(session) = &self.session {
            self.target.kept_position.note(self.held.position(&session.connection.primary));
        }
        let first = last - group.len() as u64 + 1;
        let outcomes = (first..=last).map(|version| Ok(CommitReceipt { version })).collect();
        Ok(WrittenGroup { last, outcomes })
    }

    fn mode_after(&mut self, error: PostgresError) -> StoreMode {
        let error = self.target.named(error);
        self.is_lost = !matches!(error, PostgresError::Passing(_));
        let reason = error.to_string();
        if self.shared.status.refusal().as_ref() != Some(&reason) {
            tracing::error!(reason, "the store is read-only");
        }
        match error {
            PostgresError::Taken(_) => StoreMode::Taken { reason },
            PostgresError::Passing(_) | PostgresError::Lasting(_) => StoreMode::ReadOnly { reason },
        }
    }

    /// Also if the database has ended the connection, which the next commit would find out.
    fn needs_recovery(&self, is_read_only: bool) -> bool {
        let is_unusable = |Connection { client, primary, .. }: &Connection| {
            client.is_closed() || self.target.last_primary.has_replaced(primary)
        };
        let is_closed = self.session.as_ref().is_none_or(|session| is_unusable(&session.connection));
        (is_closed || is_read_only) && !self.is_lost && !self.shared.status.is_taken()
    }

    /// A group without an answer is settled with an empty group after it.
    async fn recover(&mut self) -> PostgresResult<()> {
        self.session = None;
        let tried = timeout(COMMIT_WITHIN, self.try_to_recover()).await;
        let tried = tried.unwrap_or_else(|_elapsed| Err(no_answer()));
        match &tried {
            Ok(()) => tracing::info!(database = self.target.name, "the store is writable again"),
            Err(_) => self.session = None,
        }
        tried
    }

    /// Reads the size of the tables and removes old numbers, if the last time was long enough ago.
    async fn maintain(&mut self) {
        let Some(session) = self.session.as_ref().filter(|_| Instant::now() >= self.next_maintenance) else {
            return;
        };
        self.next_maintenance = Instant::now() + MAINTAIN_EVERY;
        let last = self.held.identity.sequence.cast_signed();
        let maintained = timeout(MAINTAIN_WITHIN, async {
            session.prune(last).await?;
            let row = session.connection.client.query_one(SELECT_SIZE, &[]).await?;
            let bytes = row.get::<_, i64>(0).cast_unsigned();
            self.shared.status.update(|status| status.bytes_on_disk = bytes);
            Ok::<_, PostgresError>(())
        });
        // a broken connection would fail the next commit; without it that one connects again
        if !matches!(maintained.await, Ok(Ok(()))) {
            self.session = None;
        }
    }

    async fn end(&mut self) {
        if !matches!(timeout(GIVE_UP_WITHIN, self.give_up()).await, Ok(Ok(()))) {
            tracing::debug!("the lease was not given up; a server that waits takes it some seconds later");
        }
    }
}

fn no_answer() -> PostgresError {
    PostgresError::Passing(format!(
        "no answer within {} s: another session may hold a lock on the tables of the schema plimsoll, or the synchronous standby may be \
         away (look into pg_stat_activity)",
        COMMIT_WITHIN.as_secs()
    ))
}
