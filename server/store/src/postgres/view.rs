//! A store as it was at one moment, read in one transaction while a server may go on writing: for commands that read all of it.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::ClientWrapper;
use tokio::time::timeout;
use tokio_postgres::Error;

use super::{
    checks::check_server,
    connection::Connection,
    errors::{PostgresError, describe},
    opening::in_time,
    reading, schema,
    settings::{PostgresSettings, Target},
    snapshot::BEGIN,
};
use crate::{
    errors::StoreError,
    kv::KeyValue,
    kv::{PageLimit, ScanPage, StoreIdentity, StoreMode, StoreStatus, VersionedValue},
};

/// Lets the transaction lie idle for longer, while what is read is written elsewhere.
const PATIENT: &str = "SET idle_in_transaction_session_timeout = '10min'";
/// Longest wait for the answer to a read.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// A store at one moment. Its clones share the connection; the transaction ends with the last one.
#[derive(Clone)]
pub struct DatabaseView(Arc<Parts>);

struct Parts {
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
        Ok(Self(Arc::new(Parts { name: target.name, client, identity, bytes })))
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
            syncs: 0,
            tries: 0,
            lease_epoch: 0,
            last_commit_micros: 0,
            unknown_fates: 0,
            commits_lost: 0,
        }
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        let reason = match timeout(READ_WITHIN, call).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => describe(&error),
            Err(_elapsed) => format!("no answer within {} s", READ_WITHIN.as_secs()),
        };
        Err(StoreError::Unavailable(format!("PostgreSQL at {}: {reason}", self.0.name)))
    }
}

async fn begin(target: &Target) -> Result<(ClientWrapper, StoreIdentity, u64), PostgresError> {
    let connection = Connection::open(target).await?;
    check_server(&connection.client).await?;
    connection.client.batch_execute(PATIENT).await?;
    connection.client.batch_execute(BEGIN).await?;
    let identity = schema::read_identity(&connection.client).await?;
    let size = "SELECT pg_total_relation_size('plimsoll.entry')";
    let bytes: i64 = connection.client.query_one(size, &[]).await?.get(0);
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
