//! A snapshot of a store, whatever the engine.

use ulid::Ulid;

use super::{
    errors::StoreResult,
    kv::{KeyValue, StoreIdentity},
    postgres::DatabaseSnapshot,
    sled::{EngineSnapshot, FORMAT_VERSION},
};

/// All entries of a store at one moment, read page by page. Dropping it ends what the store does for it.
#[derive(Debug)]
pub struct Snapshot(SnapshotSource);

#[derive(Debug)]
enum SnapshotSource {
    Sled(EngineSnapshot),
    Postgres(DatabaseSnapshot),
    Memory(Option<Vec<KeyValue>>),
}

impl Snapshot {
    pub(crate) fn of_files(snapshot: EngineSnapshot) -> Self {
        Self(SnapshotSource::Sled(snapshot))
    }

    pub(crate) fn of_database(snapshot: DatabaseSnapshot) -> Self {
        Self(SnapshotSource::Postgres(snapshot))
    }

    pub(crate) fn of_memory(entries: Vec<KeyValue>) -> Self {
        Self(SnapshotSource::Memory(Some(entries)))
    }

    /// The store's identity, with the number of the last commit that the snapshot contains.
    pub fn identity(&self) -> StoreIdentity {
        match &self.0 {
            SnapshotSource::Sled(snapshot) => snapshot.identity,
            SnapshotSource::Postgres(snapshot) => snapshot.identity,
            SnapshotSource::Memory(_) => {
                StoreIdentity { format: FORMAT_VERSION, id: Ulid::nil(), sequence: 0 }
            }
        }
    }

    /// Reads the next entries; `None` at the end. An entry may be returned twice, with the same value.
    /// Errors: the store cannot be read, or it changed faster than the snapshot was read.
    pub async fn next(&mut self) -> StoreResult<Option<Vec<KeyValue>>> {
        match &mut self.0 {
            SnapshotSource::Sled(snapshot) => snapshot.next().await,
            SnapshotSource::Postgres(snapshot) => snapshot.next().await,
            SnapshotSource::Memory(entries) => Ok(entries.take()),
        }
    }
}
