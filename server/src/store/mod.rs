//! Keeps what must survive: attempts, samples, summaries, verdicts, tickets.
//!
//! Two layers. Below, [`Store`]: ordered bytes to bytes with all-or-nothing commits that are on the disk when they return; in
//! files ([`SledStore`]) or in memory ([`MemoryStore`], for tests). Above, functions that are written once for both: records
//! ([`put_summary`], [`load_summaries`] ..), samples ([`append_fragment`], [`read_series`] ..) and the way from the one to
//! the other ([`roll`], [`seal`], [`sweep`]). Nothing outside of this module knows sled.
//!
//! The ingest is the only writer of all that attempts are made of, the ticketing of tickets. Readers may wait while a batch is written, so what must be fast does not read here:
//! predictions and sums come from memory. What is shown of single attempts (lists, the whole summary, the series) and what a
//! verdict stands on (the stored answer, the attempt) is read here.
#![doc = ""]
#![doc = include_str!("FORMAT.md")]

mod block;
mod bytes;
mod check;
mod chunk;
mod codec;
mod columns;
mod committing;
mod directory;
mod durable;
mod each;
mod engine;
mod envelope;
mod errors;
mod fault;
mod fill;
pub(crate) mod foreign;
mod grid;
mod keys;
mod kv;
mod lane;
mod look;
mod marker;
mod memory;
mod offline;
mod packed;
mod packer;
mod past_damage;
mod plan;
mod records;
mod seal;
mod series;
mod shared;
mod sled_store;
mod snapshot;
mod strip;
#[cfg(test)]
mod tests;
mod thin;
mod upgrade;
mod witness;
mod writer;

pub use check::{Checked, Flaw};
pub use chunk::Run;
pub use committing::Committing;
pub use directory::bytes_below;
pub use durable::syncs;
pub use each::{
    Loaded, each_summary, load_summaries, load_summaries_past_damage, load_tickets, load_verdicts,
};
pub use engine::Identity;
pub use envelope::{MAX_RECORD, RecordError};
pub use errors::{CommitError, Excess, KeyText, StoreError};
pub use fault::OpenError;
pub use fill::Filling;
pub use keys::Kind;
pub use kv::{
    BATCH_BYTES, BATCH_OPERATIONS, Batch, Check, Committed, Deleted, Entry, Expect, Limit, MAX_KEY,
    MAX_VALUE, Mode, PAGE_BYTES, PAGE_ITEMS, Page, StoreStatus, Versioned, Write,
};
pub use look::Copied;
pub use marker::{FORMAT_VERSION, id_of};
pub use memory::MemoryStore;
pub use offline::Offline;
pub use past_damage::Gap;
pub use records::{
    change_verdicts, count_verdicts, delete_attempt, delete_ticket, ended_after, forget, forget_verdicts,
    forget_verdicts_on, have_samples, judged_after, open_attempts, put_attempt, put_summary, put_ticket,
    put_verdict, read_summary, read_verdict, read_verdicts,
};
pub use seal::{Roll, SealError, roll, roll_up_to, seal, sweep};
pub use series::{Extent, SeriesRead, append_fragment, each_run, read_series};
pub use sled_store::{SledStore, StoreSettings};
pub use snapshot::Snapshot;
use strip::Strip;
pub use thin::{Blocks, blocks_after, last_elapsed, replace_block, thinned};
pub use upgrade::{UpgradeMark, put_upgrade, read_upgrade};

/// Ordered bytes to bytes. Cheap to clone; clones share the store.
#[derive(Debug, Clone)]
pub enum Store {
    /// In files.
    Sled(SledStore),
    /// In memory, for tests.
    Memory(MemoryStore),
}

impl Store {
    /// Opens or makes a store in files. Blocks for as long as the engine needs to recover.
    ///
    /// # Errors
    /// Names the file and the way out. Only a directory that is empty or ours was changed.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        SledStore::open(settings).map(Self::Sled)
    }

    /// A store in memory.
    pub fn memory() -> Self {
        Self::Memory(MemoryStore::default())
    }

    /// All checks hold and all writes happen, or nothing does. On the disk when it returns.
    ///
    /// Concurrent calls share a sync. Once begun it goes on, even if the caller does not wait.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        self.begin(batch).await?.done().await
    }

    /// The same, but returns as soon as the store has it, so that the caller can prepare the next one meanwhile.
    ///
    /// # Errors
    /// It is too large, or the store is closed. What else goes wrong, [`Committing::done`] says.
    pub async fn begin(&self, batch: Batch) -> Result<Committing, CommitError> {
        match self {
            Self::Sled(store) => store.begin(batch).await,
            Self::Memory(store) => Ok(Committing::ended(store.commit(batch))),
        }
    }

    /// One value. Sees every commit that was answered before the call.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Versioned>, StoreError> {
        match self {
            Self::Sled(store) => store.get(key.to_vec()).await,
            Self::Memory(store) => Ok(store.get(key)),
        }
    }

    /// For each prefix, whether a key begins with it: one visit to the engine, where a scan of each would be many.
    pub async fn holds(&self, prefixes: Vec<Vec<u8>>) -> Result<Vec<bool>, StoreError> {
        match self {
            Self::Sled(store) => store.holds(prefixes).await,
            Self::Memory(store) => Ok(prefixes.iter().map(|prefix| store.holds(prefix)).collect()),
        }
    }

    /// Entries whose keys begin with `prefix`, in byte order, behind the key `after`.
    pub async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: Limit) -> Result<Page, StoreError> {
        match self {
            Self::Sled(store) => store.scan(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Memory(store) => Ok(store.scan(prefix, after, limit)),
        }
    }

    /// As [`Self::scan`], in one piece of memory: for who reads very many.
    async fn strip(&self, prefix: &[u8], after: Option<&[u8]>, limit: Limit) -> Result<Strip, StoreError> {
        match self {
            Self::Sled(store) => store.strip(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Memory(store) => Ok(store.scan(prefix, after, limit).into()),
        }
    }

    /// As [`Self::scan`]; goes on behind a range that cannot be read, and says which one it is.
    pub async fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: Limit,
    ) -> Result<(Page, Option<Gap>), StoreError> {
        match self {
            Self::Sled(store) => store.scan_past(prefix.to_vec(), after.map(<[u8]>::to_vec), limit).await,
            Self::Memory(store) => Ok((store.scan(prefix, after, limit), None)),
        }
    }

    /// Removes a page of the entries whose keys begin with `prefix`. Not atomic over pages: call it until nothing is left.
    pub async fn delete_prefix(&self, prefix: &[u8], limit: Limit) -> Result<Deleted, CommitError> {
        let page = self.scan(prefix, None, limit).await;
        let page = page.map_err(|error| CommitError::Unavailable(error.to_string()))?;
        let (items, more) = (page.entries.len(), page.more);
        let mut batch = Batch::default();
        page.entries.into_iter().for_each(|entry| batch.delete(entry.key));
        if !batch.is_empty() {
            self.commit(batch).await?;
        }
        Ok(Deleted { items, more })
    }

    /// Whether it takes commits, and some figures. Does not touch the disk.
    pub fn status(&self) -> StoreStatus {
        match self {
            Self::Sled(store) => store.status(),
            Self::Memory(store) => store.status(),
        }
    }

    /// All entries as they are now, read page by page while commits go on. One at a time.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        match self {
            Self::Sled(store) => store.snapshot().await,
            Self::Memory(store) => Ok(Snapshot::of_memory(store.entries())),
        }
    }

    /// Finishes what was accepted and lets go of the files. Commits are refused from then on.
    pub async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Sled(store) => store.close().await,
            Self::Memory(store) => store.close(),
        }
    }
}
