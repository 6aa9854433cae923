//! A snapshot: all entries as they were at one commit, read in one transaction of a connection of its own.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use tokio_postgres::{Error, Row};

use super::{
    errors::{describe, is_damage},
    reading, schema,
};
use crate::{
    errors::StoreError,
    found_damage::FoundDamage,
    kv::{KeyValue, PageLimit, StoreIdentity},
};

/// Longest wait for a page.
pub(super) const PAGE_WITHIN: Duration = Duration::from_secs(30);
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The reader of a snapshot. The transaction ends when it is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseSnapshot {
    client: Option<Object>,
    pub(crate) identity: StoreIdentity,
    found_damage: FoundDamage,
    after: Vec<u8>,
    /// Only one snapshot is read at a time: an open transaction keeps the database from cleaning up.
    _only: OwnedSemaphorePermit,
}

impl DatabaseSnapshot {
    /// Begins a snapshot on a connection of its own.
    pub(super) async fn begin(
        client: Object,
        identity: StoreIdentity,
        found_damage: FoundDamage,
        only: OwnedSemaphorePermit,
    ) -> Result<Self, Error> {
        let mut begun = Self { client: Some(client), identity, found_damage, after: Vec::new(), _only: only };
        let row = begun.begin_transaction().await?;
        begun.identity.sequence = schema::last_commit(row.as_ref());
        Ok(begun)
    }

    async fn begin_transaction(&self) -> Result<Option<Row>, Error> {
        let Some(client) = &self.client else { return Ok(None) };
        client.batch_execute(BEGIN).await?;
        client.query_opt(schema::LAST_COMMIT, &[]).await
    }

    /// Reads the next entries; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        let Some(client) = &self.client else { return Ok(None) };
        let after = Some(self.after.as_slice()).filter(|after| !after.is_empty());
        let read = timeout(PAGE_WITHIN, reading::page_rows(client, b"", after, PageLimit::PAGE)).await;
        let late = |_elapsed| {
            StoreError::Unavailable("no answer from the database to a page of the snapshot".to_owned())
        };
        let read = read.map_err(late)?;
        let failed = |error: Error| match describe(&error) {
            reason if is_damage(&error) => {
                StoreError::Unavailable(self.found_damage.note_and_explain(&reason))
            }
            reason => StoreError::Unavailable(reason),
        };
        let page = reading::scan_page(read.map_err(failed)?);
        match page.next_after() {
            Some(last) => self.after = last,
            None => self.disconnect(),
        }
        Ok(Some(page.entries))
    }

    /// Ends the connection, and with it the transaction, instead of giving it back to the pool.
    fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for DatabaseSnapshot {
    fn drop(&mut self) {
        self.disconnect();
    }
}
