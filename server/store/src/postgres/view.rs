//! A store as it was at one moment, read in one transaction while a server may go on writing: for commands that read all of it.

use std::{fmt, sync::Arc};

use deadpool_postgres::ClientWrapper;
use tokio::time::timeout;
use tokio_postgres::Error;

use super::{
    errors::{PostgresError, describe, is_damage},
    opening::{connect_checked, in_time},
    reading, schema,
    settings::{PostgresSettings, Target},
    snapshot::{BEGIN, PAGE_WITHIN},
    writer::SELECT_SIZE,
};
use crate::{
    errors::{KeyText, StoreError},
    kv::{
        KeyValue, PageLimit, ScanPage, StoreIdentity, StoreMode, StoreStatus, UnreadableRange, VersionedValue,
    },
};

/// Lets the transaction lie idle for longer, while what is read is written elsewhere.
const SET_LONG_IDLE_TIMEOUT: &str = "SET idle_in_transaction_session_timeout = '10min'";
/// After a read that fails, the transaction goes on from here, at the same moment.
const SET_SAVEPOINT: &str = "SAVEPOINT before_read";
const ROLLBACK_TO_SAVEPOINT: &str = "ROLLBACK TO SAVEPOINT before_read";

/// A store at one moment. Its clones share the connection; the transaction ends with the last one.
#[derive(Clone)]
pub struct DatabaseView(Arc<DatabaseViewState>);

struct DatabaseViewState {
    /// Name of the database, for error texts.
    name: String,
    client: ClientWrapper,
    identity: StoreIdentity,
    /// Size of the table of entries with its index, bytes.
    bytes: u64,
}

impl fmt::Debug for DatabaseView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseView").field(&self.0.name).finish()
    }
}

impl DatabaseView {
    /// Begins the transaction. The connection lives in the runtime of the caller.
    /// Errors: there is no store, or it cannot be read; the text says what to do.
    pub async fn open(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        let target = Target::read(settings)?;
        let begun = in_time(begin(&target)).await;
        let (client, identity, bytes) = begun.map_err(|error| target.named(error))?;
        Ok(Self(Arc::new(DatabaseViewState { name: target.name, client, identity, bytes })))
    }

    /// Identity of the store, with the number of its last commit at that moment.
    pub fn identity(&self) -> StoreIdentity {
        self.0.identity
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<VersionedValue>, StoreError> {
        self.read(reading::get(&self.0.client, key)).await
    }

    pub(crate) async fn holds(&self, prefixes: &[Vec<u8>]) -> Result<Vec<bool>, StoreError> {
        self.read(reading::holds(&self.0.client, prefixes)).await
    }

    pub(crate) async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<ScanPage, StoreError> {
        self.read(reading::page_rows(&self.0.client, prefix, after, limit)).await.map(reading::scan_page)
    }

    /// The size, and that nothing can be written.
    pub(crate) fn status(&self) -> StoreStatus {
        StoreStatus {
            mode: StoreMode::ReadOnly { reason: "this view of the store is only read".to_owned() },
            bytes_on_disk: self.0.bytes,
            commits: self.0.identity.sequence,
            ..StoreStatus::default()
        }
    }

    /// Like [`Self::scan`], but where the database cannot read a row, reads row by row; skips rows that it cannot read, and returns their range.
    /// Errors: it cannot list the keys, or cannot be reached.
    pub(crate) async fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<(ScanPage, Option<UnreadableRange>), StoreError> {
        let read = self.try_read(reading::page_rows(&self.0.client, prefix, after, limit)).await?;
        if let Ok(rows) = read {
            return Ok((reading::scan_page(rows), None));
        }
        let mut rows = RowByRow { last: after.map(<[u8]>::to_vec), ..RowByRow::default() };
        loop {
            let keys = reading::page_keys(&self.0.client, prefix, rows.last.as_deref(), limit);
            let (keys, more) = self.read(keys).await?;
            let is_behind_damage = self.read_rows(prefix, keys, &mut rows).await?;
            if is_behind_damage || !more || rows.gap.is_none() {
                let page = ScanPage { entries: rows.entries, more: more || is_behind_damage };
                return Ok((page, rows.gap));
            }
        }
    }

    /// Reads the rows of these keys up to the first one behind damaged ones; returns whether there is such a one.
    async fn read_rows(
        &self,
        prefix: &[u8],
        keys: Vec<Vec<u8>>,
        rows: &mut RowByRow,
    ) -> Result<bool, StoreError> {
        for key in keys {
            let read = self.try_read(reading::get(&self.0.client, &key)).await?;
            let before = rows.last.replace(key.clone()).unwrap_or_else(|| prefix.to_vec());
            match (read, rows.gap.as_mut()) {
                (Ok(value), None) => rows.entries.extend(value.map(|value| KeyValue { key, value })),
                (Ok(value), Some(gap)) => {
                    gap.until = Some(KeyText(key.clone()));
                    rows.entries.extend(value.map(|value| KeyValue { key, value }));
                    return Ok(true);
                }
                (Err(Damage(reason)), None) => {
                    rows.gap = Some(UnreadableRange { after: KeyText(before), until: None, reason });
                }
                (Err(_), Some(_)) => {}
            }
        }
        Ok(false)
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        let read = self.try_read(call).await?;
        read.map_err(|Damage(reason)| {
            self.unavailable(&format!("{reason}; restore a backup into another database"))
        })
    }

    /// Reads. The inner error: the database cannot read these rows, and others can be read.
    async fn try_read<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Damage>, StoreError> {
        let error = match timeout(PAGE_WITHIN, call).await {
            Ok(Ok(found)) => return Ok(Ok(found)),
            Ok(Err(error)) => error,
            Err(_elapsed) => {
                return Err(self.unavailable(&format!("no answer within {} s", PAGE_WITHIN.as_secs())));
            }
        };
        if !is_damage(&error) {
            return Err(self.unavailable(&describe(&error)));
        }
        let gone_on = self.0.client.batch_execute(ROLLBACK_TO_SAVEPOINT).await;
        gone_on.map_err(|error| self.unavailable(&describe(&error)))?;
        Ok(Err(Damage(describe(&error))))
    }

    fn unavailable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable(format!("PostgreSQL at {}: {reason}", self.0.name))
    }
}

/// The database cannot read a row, for this reason.
struct Damage(String);

/// What was read row by row.
#[derive(Default)]
struct RowByRow {
    entries: Vec<KeyValue>,
    /// The damaged rows.
    gap: Option<UnreadableRange>,
    /// The last key that was tried.
    last: Option<Vec<u8>>,
}

async fn begin(target: &Target) -> Result<(ClientWrapper, StoreIdentity, u64), PostgresError> {
    let connection = connect_checked(target).await?;
    for statement in [SET_LONG_IDLE_TIMEOUT, BEGIN, SET_SAVEPOINT] {
        connection.client.batch_execute(statement).await?;
    }
    let identity = schema::read_identity(&connection.client).await?;
    let bytes: i64 = connection.client.query_one(SELECT_SIZE, &[]).await?.get(0);
    Ok((connection.into_reader(), identity, bytes.cast_unsigned()))
}

/// All entries of a view, page by page.
#[derive(Debug)]
pub(crate) struct ViewPages {
    view: DatabaseView,
    after: Option<Vec<u8>>,
    is_done: bool,
}

impl From<DatabaseView> for ViewPages {
    fn from(view: DatabaseView) -> Self {
        Self { view, after: None, is_done: false }
    }
}

impl ViewPages {
    /// Identity of the store.
    pub(crate) fn identity(&self) -> StoreIdentity {
        self.view.identity()
    }

    /// Reads the next entries; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let page = self.view.scan(b"", self.after.as_deref(), PageLimit::PAGE).await?;
        self.after = page.entries.last().map(|last| last.key.clone());
        self.is_done = !page.more;
        Ok(Some(page.entries))
    }
}
