//! Stores what must survive: attempts, samples, summaries, verdicts, tickets.
//!
//! The crate has two layers. The lower layer is [`Store`]: ordered keys and values of bytes, with atomic
//! commits that are on disk when they return. It keeps them in files ([`SledStore`]), in a PostgreSQL database
//! ([`PostgresStore`]) or in memory ([`MemoryStore`], for tests). The upper layer works on each: records ([`put`], [`load()`]
//! ..), samples ([`append_fragment`], [`read_series`] ..) and the conversion between them ([`compact_samples`],
//! [`seal`], [`sweep_late_fragments`]). Only the module `sled` uses sled, only `postgres` the client library of PostgreSQL.
//!
//! The server's sessions are the only writer of attempts, its tickets the only writer of tickets. A read may
//! wait while a batch is written, so answers that must be fast (predictions, totals) come from the server's
//! memory. The server reads here only single attempts (lists, summary, series) and what a verdict is based on
//! (the stored verdict, the attempt).
#![doc = ""]
#![doc = include_str!("../FORMAT.md")]

pub mod archive;
pub mod backup;
mod block;
mod bounds;
mod bytes;
mod check;
mod chunk;
mod codec;
mod columns;
mod committing;
pub mod disk;
mod downsample;
mod envelope;
mod errors;
pub mod fixtures;
pub mod foreign;
mod found_damage;
mod grid;
mod group_commit;
mod keys;
mod kv;
mod lane;
mod load;
mod memory;
mod packed_page;
mod packed_summary;
mod packing_threads;
mod postgres;
mod range_end;
mod records;
mod renames;
mod seal;
mod series;
mod series_check;
mod sled;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
pub mod threads;

pub use bounds::{BATCH_BYTES, BATCH_OPERATIONS, MAX_KEY, MAX_VALUE};
pub use check::{CheckFinding, CheckReport, check_store};
pub use chunk::SampleRun;
pub use committing::PendingCommit;
pub use downsample::{SealedBlocks, blocks_after, downsampled, last_elapsed, replace_block};
pub use envelope::{MAX_RECORD, RecordError};
use errors::StoreResult;
pub use errors::{CommitBound, CommitError, KeyText, StoreError};
pub use found_damage::FoundDamage;
pub use keys::KeyKind;
pub use kv::{
    Batch, CommitReceipt, DeleteProgress, KeyValue, PAGE_BYTES, PAGE_ITEMS, PageLimit, ScanPage,
    StoreIdentity, StoreMode, StoreStatus, UnreadableRange, VersionedValue, WriteOp,
};
pub use load::{LoadReport, each_summary, load, load_past_damage};
pub use memory::MemoryStore;
use packed_page::PackedPage;
pub use postgres::{DatabaseReport, DatabaseView, PostgresError, PostgresSettings, PostgresStore};
pub use records::{
    SealError, VERDICTS_ON_ATTEMPT, change_verdicts, delete_pod, delete_ticket, forget_attempt,
    forget_verdicts, forget_verdicts_if, forget_verdicts_on, have_samples, ids_after, open_attempts, put,
    put_pod, put_verdict, read_summary, read_ticket_numbers, read_verdict, read_verdicts, remove,
};
pub use renames::{begin_rename, finish_rename};
pub use seal::{CompactedSamples, compact_samples, compact_samples_up_to, seal, sweep_late_fragments};
pub use series::{SeriesExtent, SeriesRead, append_fragment, each_run, each_run_past_damage, read_series};
pub use sled::{
    FORMAT_VERSION, LogLoss, OfflineStore, OpenError, RepairLoss, RepairReport, SledStore, StoreCopy,
    StoreFiller, StoreSettings, bytes_below, repair, store_id_at, store_id_of, syncs,
};
pub use snapshot::Snapshot;
use tokio_util::sync::CancellationToken;

/// A store of ordered keys and values of bytes. It is cheap to clone, and clones share the store.
#[derive(Debug, Clone)]
pub enum Store {
    /// A store in files.
    Sled(SledStore),
    /// A store in a PostgreSQL database.
    Postgres(PostgresStore),
    /// A store in a PostgreSQL database as it was at one moment, which is only read.
    View(DatabaseView),
    /// A store in memory, for tests.
    Memory(MemoryStore),
}

impl Store {
    /// Opens a store in files, or creates it. Blocks while the engine recovers.
    /// Errors: the error names the file and says what to do. A directory of another program is not changed.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        SledStore::open(settings).map(Self::Sled)
    }

    /// Opens a store in a PostgreSQL database, or creates its tables. A server that has the store open writes no more. Blocks while it
    /// connects.
    /// Errors: the error names the setting and says what to do.
    pub fn open_postgres(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        PostgresStore::open(settings).map(Self::Postgres)
    }

    /// Opens a store in a PostgreSQL database, but waits while another server has it open: until that one closes it, or has not beaten for
    /// six seconds. `on_holder` gets the address and the start of that server. `None` once `stop` is cancelled: the store is free for others.
    /// Errors: the error names the setting and says what to do.
    pub async fn open_postgres_when_free(
        settings: &PostgresSettings,
        on_holder: impl Fn(&str) + Send + 'static,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, PostgresError> {
        Ok(PostgresStore::open_when_free(settings, on_holder, stop).await?.map(Self::Postgres))
    }

    /// Opens a store in a PostgreSQL database as it is now, to read it: commits are refused, and a server goes on writing. Until it is
    /// dropped, the database keeps what is replaced.
    /// Errors: there is no store, or it cannot be read; the text names the setting and says what to do.
    pub async fn view_postgres(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        DatabaseView::open(settings).await.map(Self::View)
    }

    /// A store in memory.
    pub fn memory() -> Self {
        Self::Memory(MemoryStore::default())
    }

    /// Applies all writes of a batch, or none. The writes are on disk when this returns.
    ///
    /// Calls at the same time share a sync. The commit continues even if the caller stops waiting.
    pub async fn commit(&self, batch: Batch) -> Result<CommitReceipt, CommitError> {
        self.begin(batch).await?.done().await
    }

    /// Like [`Self::commit`], but returns as soon as the store accepted the batch, so that the caller can prepare the next one.
    /// Errors: the batch is too large, or the store is closed. [`PendingCommit::done`] returns other errors.
    pub async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        match self {
            Self::Sled(store) => store.begin(batch).await,
            Self::Postgres(store) => store.begin(batch).await,
            Self::View(_) => Err(CommitError::Unavailable("this view of the store is only read".to_owned())),
            Self::Memory(store) => Ok(PendingCommit::already_ended(store.commit(batch))),
        }
    }

    /// Reads one value. The read sees every commit that was answered before the call.
    pub async fn get(&self, key: &[u8]) -> StoreResult<Option<VersionedValue>> {
        match self {
            Self::Sled(store) => store.get(key.to_vec()).await,
            Self::Postgres(PostgresStore { reader, .. }) | Self::View(DatabaseView { reader, .. }) => {
                reader.get(key).await
            }
            Self::Memory(store) => Ok(store.get(key)),
        }
    }

    /// For each prefix, whether any key starts with it. One call into the engine answers for all prefixes.
    pub async fn holds(&self, prefixes: Vec<Vec<u8>>) -> StoreResult<Vec<bool>> {
        match self {
            Self::Sled(store) => store.holds(prefixes).await,
            Self::Postgres(PostgresStore { reader, .. }) | Self::View(DatabaseView { reader, .. }) => {
                reader.holds(prefixes).await
            }
            Self::Memory(store) => Ok(prefixes.iter().map(|prefix| store.holds(prefix)).collect()),
        }
    }

    /// A page of the entries with keys that start with `prefix`, in byte order of the keys, from the first key
    /// after `after` on.
    pub async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: PageLimit) -> StoreResult<ScanPage> {
        match self {
            Self::Sled(store) => store.scan(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Postgres(PostgresStore { reader, .. }) | Self::View(DatabaseView { reader, .. }) => {
                reader.scan(prefix, after, limit).await
            }
            Self::Memory(store) => Ok(store.scan(prefix, after, limit)),
        }
    }

    /// Like [`Self::scan`], but with one allocation for the whole page: for callers that read very many
    /// entries.
    async fn scan_packed(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> StoreResult<PackedPage> {
        match self {
            Self::Sled(store) => store.scan_packed(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Postgres(PostgresStore { reader, .. }) | Self::View(DatabaseView { reader, .. }) => {
                reader.scan_packed(prefix, after, limit).await
            }
            Self::Memory(store) => Ok(store.scan(prefix, after, limit).into()),
        }
    }

    /// Like [`Self::scan`], but skips a range of keys that cannot be read, and returns it.
    pub async fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> StoreResult<(ScanPage, Option<UnreadableRange>)> {
        match self {
            Self::Sled(store) => store.scan_past(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Postgres(PostgresStore { reader, .. }) | Self::View(DatabaseView { reader, .. }) => {
                reader.scan_past(prefix, after, limit).await
            }
            Self::Memory(store) => Ok((store.scan(prefix, after, limit), None)),
        }
    }

    /// Removes one page of the entries with keys that start with `prefix`. Each page is a commit of its own:
    /// call this until no entry is left.
    pub async fn delete_prefix(
        &self,
        prefix: &[u8],
        limit: PageLimit,
    ) -> Result<DeleteProgress, CommitError> {
        let page = self.scan(prefix, None, limit).await;
        let page = page.map_err(|error| CommitError::Unavailable(error.to_string()))?;
        let (items, more) = (page.entries.len(), page.more);
        let mut batch = Batch::default();
        page.entries.into_iter().for_each(|entry| batch.delete(entry.key));
        if !batch.is_empty() {
            self.commit(batch).await?;
        }
        Ok(DeleteProgress { items, more })
    }

    /// Whether the store accepts commits, and its size and counters. Does not access the disk.
    pub fn status(&self) -> StoreStatus {
        match self {
            Self::Sled(store) => store.status(),
            Self::Postgres(store) => store.status(),
            Self::View(view) => view.status(),
            Self::Memory(store) => store.status(),
        }
    }

    /// The damage that readings have found since the store was opened.
    pub fn found_damage(&self) -> FoundDamage {
        match self {
            Self::Sled(store) => store.found_damage(),
            Self::Postgres(store) => store.found_damage(),
            // read once, by a command that counts for itself
            Self::View(_) => FoundDamage::in_database(),
            Self::Memory(store) => store.found_damage(),
        }
    }

    /// Starts to read all entries as they are now, page by page, while commits go on. Only one snapshot can be
    /// read at a time.
    pub async fn snapshot(&self) -> StoreResult<Snapshot> {
        match self {
            Self::Sled(store) => store.snapshot().await.map(Snapshot::of_files),
            Self::Postgres(store) => store.snapshot().await.map(Snapshot::of_database),
            Self::View(view) => Ok(Snapshot::of_database(view.snapshot())),
            Self::Memory(store) => Ok(Snapshot::of_memory(store.entries())),
        }
    }

    /// Waits until accepted commits are written, and closes the files. Later commits are refused.
    pub async fn close(&self) -> StoreResult<()> {
        match self {
            Self::Sled(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
            Self::View(_) => Ok(()),
            Self::Memory(store) => store.close(),
        }
    }
}
