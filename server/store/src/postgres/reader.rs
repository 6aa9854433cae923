//! Reads the entries of a store in a database, for all who do: over the connections of a server that has it open, or in one transaction,
//! as they were at one moment.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object, Pool, PoolError, TimeoutType};
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{Client, Error, Row};
use tokio_util::task::TaskTracker;

use super::{
    errors::{describe, is_damage, is_disconnect},
    reading::{Query, packed_page, scan_page, value},
};
use crate::{
    committing::CLOSED,
    errors::{KeyText, StoreError, StoreResult},
    found_damage::FoundDamage,
    kv::{KeyValue, PageLimit, ScanPage, UnreadableRange, VersionedValue},
    packed_page::PackedPage,
};

/// Longest wait for the answer to a read.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(30);
/// Lets the transaction lie idle for longer, while what is read is written elsewhere.
const SET_LONG_IDLE_TIMEOUT: &str = "SET idle_in_transaction_session_timeout = '10min'";
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// After a read that fails, the transaction goes on from here, at the same moment.
const SET_SAVEPOINT: &str = "SAVEPOINT before_read";
const ROLLBACK_TO_SAVEPOINT: &str = "ROLLBACK TO SAVEPOINT before_read";

/// Begins the transaction of a reader.
pub(super) async fn begin(client: &Client) -> Result<(), Error> {
    for statement in [SET_LONG_IDLE_TIMEOUT, BEGIN, SET_SAVEPOINT] {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// What reads entries.
#[derive(Debug)]
pub(crate) struct DatabaseReader {
    /// Name of the database, for error texts.
    pub(super) name: String,
    pub(super) source: Source,
}

/// Where entries are read.
#[derive(Debug)]
pub(super) enum Source {
    /// Over connections that live on these threads. Damage is noted.
    Pool(Pool, Handle, FoundDamage),
    /// In one transaction, which ends with this connection.
    Transaction(ClientWrapper),
}

/// Why a read failed.
pub(super) enum ReadFailure {
    /// No answer within [`READ_WITHIN`].
    Late,
    Closed,
    /// The database cannot read these rows, and others can be read.
    Damaged(String),
    Failed(String),
}

impl From<&Error> for ReadFailure {
    fn from(error: &Error) -> Self {
        if is_damage(error) { Self::Damaged(describe(error)) } else { Self::Failed(describe(error)) }
    }
}

impl From<PoolError> for ReadFailure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from(&error),
            PoolError::Timeout(TimeoutType::Recycle) => Self::Late,
            PoolError::Closed => Self::Closed,
            other => Self::Failed(other.to_string()),
        }
    }
}

impl DatabaseReader {
    pub(crate) async fn get(&self, key: &[u8]) -> StoreResult<Option<VersionedValue>> {
        self.read(Query::Get(key.to_vec())).await.map(|rows| value(&rows))
    }

    pub(crate) async fn holds(&self, prefixes: Vec<Vec<u8>>) -> StoreResult<Vec<bool>> {
        let rows = self.read(Query::Holds(prefixes)).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> StoreResult<ScanPage> {
        self.try_scan(prefix, after, limit).await.map_err(|failure| self.error(failure))
    }

    pub(super) async fn try_scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<ScanPage, ReadFailure> {
        self.try_read(Query::page(prefix, after, limit)).await.map(|rows| scan_page(rows, limit))
    }

    pub(crate) async fn scan_packed(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> StoreResult<PackedPage> {
        self.read(Query::page(prefix, after, limit)).await.map(|rows| packed_page(rows, limit))
    }

    /// Like [`Self::scan`]. But where the database cannot read a row in a transaction, reads row by row; skips rows that it cannot read,
    /// and returns their range.
    /// Errors: it cannot list the keys, or cannot be reached.
    pub(crate) async fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> StoreResult<(ScanPage, Option<UnreadableRange>)> {
        match (self.try_scan(prefix, after, limit).await, &self.source) {
            (Err(ReadFailure::Damaged(_)), Source::Transaction(_)) => {}
            (read, _) => return read.map(|page| (page, None)).map_err(|failure| self.error(failure)),
        }
        let mut rows = RowByRow { last: after.map(<[u8]>::to_vec), ..RowByRow::default() };
        loop {
            let keys = self.read(Query::keys(prefix, rows.last.as_deref(), limit)).await?;
            let more = keys.len() == limit.rows();
            let is_behind_damage = self.read_rows(prefix, &keys, &mut rows).await?;
            if is_behind_damage || !more || rows.gap.is_none() {
                let page = ScanPage { entries: rows.entries, more: more || is_behind_damage };
                return Ok((page, rows.gap));
            }
        }
    }

    /// Reads the rows of these keys up to the first one behind damaged ones; returns whether there is such a one.
    async fn read_rows(&self, prefix: &[u8], keys: &[Row], rows: &mut RowByRow) -> StoreResult<bool> {
        for key in keys.iter().map(|row| row.get::<_, Vec<u8>>(0)) {
            let read = self.try_read(Query::Get(key.clone())).await;
            let before = rows.last.replace(key.clone()).unwrap_or_else(|| prefix.to_vec());
            let value = match read {
                Ok(read) => value(&read),
                Err(ReadFailure::Damaged(reason)) => {
                    let until = None;
                    rows.gap.get_or_insert(UnreadableRange { after: KeyText(before), until, reason });
                    continue;
                }
                Err(failure) => return Err(self.error(failure)),
            };
            rows.entries.extend(value.map(|value| KeyValue { key: key.clone(), value }));
            if let Some(gap) = &mut rows.gap {
                gap.until = Some(KeyText(key));
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn read(&self, query: Query) -> StoreResult<Vec<Row>> {
        self.try_read(query).await.map_err(|failure| self.error(failure))
    }

    async fn try_read(&self, query: Query) -> Result<Vec<Row>, ReadFailure> {
        match &self.source {
            Source::Pool(pool, runtime, _) => {
                Ok(on_threads(runtime, read_pooled(pool.clone(), query)).await??)
            }
            Source::Transaction(client) => {
                let read = timeout(READ_WITHIN, query.rows(client)).await;
                let failure = match read.map_err(|_elapsed| ReadFailure::Late)? {
                    Ok(rows) => return Ok(rows),
                    Err(error) => ReadFailure::from(&error),
                };
                if matches!(failure, ReadFailure::Damaged(_)) {
                    let gone_on = client.batch_execute(ROLLBACK_TO_SAVEPOINT).await;
                    gone_on.map_err(|error| ReadFailure::Failed(describe(&error)))?;
                }
                Err(failure)
            }
        }
    }

    pub(super) fn error(&self, failure: ReadFailure) -> StoreError {
        let reason = match (failure, &self.source) {
            (ReadFailure::Closed, _) => return StoreError::Unavailable(CLOSED.to_owned()),
            (ReadFailure::Late, _) => format!("no answer within {} s", READ_WITHIN.as_secs()),
            (ReadFailure::Damaged(reason), Source::Pool(_, _, found)) => found.note_and_explain(&reason),
            (ReadFailure::Damaged(reason), Source::Transaction(_)) => {
                format!("{reason}; restore a backup into another database")
            }
            (ReadFailure::Failed(reason), _) => reason,
        };
        StoreError::Unavailable(format!("PostgreSQL at {}: {reason}", self.name))
    }
}

/// What was read row by row.
#[derive(Default)]
struct RowByRow {
    entries: Vec<KeyValue>,
    /// The damaged rows.
    gap: Option<UnreadableRange>,
    /// The last key that was tried.
    last: Option<Vec<u8>>,
}

/// Runs a task on the threads of the connections, which all live there: they must not end with the caller's.
pub(super) async fn on_threads<T: Send + 'static>(
    runtime: &Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, ReadFailure> {
    TaskTracker::new().spawn_on(task, runtime).await.map_err(|_ended| ReadFailure::Closed)
}

/// Reads over a connection. If the database has ended that one meanwhile, reads once more over another one.
async fn read_pooled(pool: Pool, query: Query) -> Result<Vec<Row>, PoolError> {
    match read_once(&pool, &query).await {
        Err(PoolError::Backend(error)) if is_disconnect(&error) => read_once(&pool, &query).await,
        outcome => outcome,
    }
}

/// Reads over a connection. One without an answer is ended, and with it what the database still does for it.
async fn read_once(pool: &Pool, query: &Query) -> Result<Vec<Row>, PoolError> {
    let client = pool.get().await?;
    match timeout(READ_WITHIN, query.rows(&client)).await {
        Ok(outcome) => outcome.map_err(PoolError::Backend),
        Err(_elapsed) => {
            drop(Object::take(client));
            Err(PoolError::Timeout(TimeoutType::Recycle))
        }
    }
}
