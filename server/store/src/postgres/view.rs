//! A store as it was at one moment, read in one transaction while a server may go on writing: for backups, and for commands that read all of
//! it.

use std::sync::Arc;

use deadpool_postgres::{ClientWrapper, Object, Pool, PoolError, TimeoutType};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::{
    errors::PostgresResult,
    opening::{connect_checked, in_time},
    reader::{self, DatabaseReader, READ_WITHIN, ReadFailure, Source},
    schema,
    settings::{PostgresSettings, Target},
    writer::SELECT_SIZE,
};
use crate::{
    errors::{StoreError, StoreResult},
    found_damage::FoundDamage,
    kv::{KeyValue, PageLimit, StoreIdentity, StoreMode, StoreStatus},
};

/// A store at one moment. Its clones share the connection; the transaction ends with the last one.
#[derive(Debug, Clone)]
pub struct DatabaseView {
    pub(crate) reader: Arc<DatabaseReader>,
    identity: StoreIdentity,
    /// Size of the table of entries with its index, bytes.
    bytes: u64,
}

impl DatabaseView {
    /// Begins the transaction. The connection lives in the runtime of the caller.
    /// Errors: there is no store, or it cannot be read; the text says what to do.
    pub async fn open(settings: &PostgresSettings) -> PostgresResult<Self> {
        let target = Target::read(settings)?;
        let begun = in_time(begin(&target)).await;
        let (client, identity, bytes) = begun.map_err(|error| target.named(error))?;
        let reader = DatabaseReader { name: target.name, source: Source::Transaction(client) };
        Ok(Self { reader: Arc::new(reader), identity, bytes })
    }

    /// Identity of the store, with the number of its last commit at that moment.
    pub fn identity(&self) -> StoreIdentity {
        self.identity
    }

    /// The size, and that nothing can be written.
    pub(crate) fn status(&self) -> StoreStatus {
        StoreStatus {
            mode: StoreMode::ReadOnly { reason: "this view of the store is only read".to_owned() },
            bytes_on_disk: self.bytes,
            commits: self.identity.sequence,
            ..StoreStatus::default()
        }
    }

    /// All entries.
    pub(crate) fn snapshot(&self) -> DatabaseSnapshot {
        let reader = Some(Arc::clone(&self.reader));
        DatabaseSnapshot { reader, identity: self.identity, after: None, of_server: None }
    }
}

async fn begin(target: &Target) -> PostgresResult<(ClientWrapper, StoreIdentity, u64)> {
    let connection = connect_checked(target).await?;
    reader::begin(&connection.client).await?;
    let identity = schema::read_identity(&connection.client).await?;
    let bytes: i64 = connection.client.query_one(SELECT_SIZE, &[]).await?.get(0);
    Ok((connection.into_reader(), identity, bytes.cast_unsigned()))
}

/// All entries at one moment, page by page.
#[derive(Debug)]
pub(crate) struct DatabaseSnapshot {
    /// `None` once all is read.
    reader: Option<Arc<DatabaseReader>>,
    pub(crate) identity: StoreIdentity,
    after: Option<Vec<u8>>,
    /// Of a server: where damage is noted, and the right to read the only snapshot: an open transaction keeps the database from cleaning up.
    of_server: Option<(FoundDamage, OwnedSemaphorePermit)>,
}

impl DatabaseSnapshot {
    /// Begins the snapshot of a server, over a connection that is not given back.
    pub(super) async fn begin(
        pool: Pool,
        name: String,
        mut identity: StoreIdentity,
        of_server: (FoundDamage, OwnedSemaphorePermit),
    ) -> Result<Self, PoolError> {
        let client = Object::take(pool.get().await?);
        let begun = timeout(READ_WITHIN, async {
            reader::begin(&client).await?;
            client.query_opt(schema::LAST_COMMIT, &[]).await
        });
        let begun = begun.await.map_err(|_elapsed| PoolError::Timeout(TimeoutType::Recycle))?;
        identity.sequence = schema::last_commit(begun.map_err(PoolError::Backend)?.as_ref());
        let reader = DatabaseReader { name, source: Source::Transaction(client) };
        Ok(Self { reader: Some(Arc::new(reader)), identity, after: None, of_server: Some(of_server) })
    }

    /// Reads the next entries; `None` at the end.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<Vec<KeyValue>>> {
        let Some(reader) = &self.reader else { return Ok(None) };
        let read = reader.try_scan(b"", self.after.as_deref(), PageLimit::PAGE).await;
        let page = read.map_err(|failure| self.error(reader, failure))?;
        self.after = page.next_after();
        if self.after.is_none() {
            self.reader = None;
        }
        Ok(Some(page.entries))
    }

    fn error(&self, reader: &DatabaseReader, failure: ReadFailure) -> StoreError {
        let Some((found_damage, _)) = &self.of_server else { return reader.error(failure) };
        StoreError::Unavailable(match failure {
            ReadFailure::Late => "no answer from the database to a page of the snapshot".to_owned(),
            ReadFailure::Damaged(reason) => found_damage.note_and_explain(&reason),
            ReadFailure::Failed(reason) => reason,
            ReadFailure::Closed => return reader.error(failure),
        })
    }
}
