//! Compacts fragments into blocks, and ends an attempt with a summary.
//!
//! Every step is one commit that adds the new entries and removes the old ones, so after a crash the store has
//! either the old entries or the new ones.

use plimsoll_core::domain::{Attempt, AttemptId, Summary};
use tokio::task::JoinError;

use super::{
    Store,
    bounds::BATCH_BYTES,
    chunk::{CompressionEffort, SampleRun},
    envelope::RecordError,
    errors::{CommitError, StoreError, StoreResult},
    found_damage::FoundDamage,
    keys::{self, KeyKind},
    kv::{Batch, CommitReceipt, DeleteProgress, PageLimit, ScanPage},
    packing_threads,
    records::{self, SealError},
    series::{self, ChunkCursor},
};

/// Most fragments that one step compacts: so few that the blocks and the summary fit into one commit.
const FRAGMENTS_A_STEP: PageLimit = PageLimit { items: 700, bytes: BATCH_BYTES / 2 };

/// Blocks store CPU time in milliseconds; this many microseconds are one millisecond.
const MICROS_A_MILLI: u64 = 1000;

/// A batch that replaces fragments by blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactedSamples {
    /// Adds the blocks and removes the fragments; empty if the attempt has no fragments.
    pub batch: Batch,
    /// Whether there may be more fragments: commit this batch and compact again.
    pub more: bool,
}

/// The batch that compacts the fragments of an attempt, as many as fit into one commit.
///
/// The attempt must not get new fragments between this call and the commit of the batch: one stored under a key
/// that the batch removes would be lost. Each attempt has one writer, which ensures that.
pub async fn compact_samples(store: &Store, id: &AttemptId) -> Result<CompactedSamples, SealError> {
    let page = unsealed_fragments(store, id, u64::MAX).await?;
    let (id, found_damage) = (id.clone(), store.found_damage());
    // the caller that ends the attempt waits for this, so it runs on a thread of normal priority
    packed(tokio::task::spawn_blocking(move || pack_page(&id, page, found_damage)).await)
}

/// Like [`compact_samples`], for the fragments that begin at the sequence number `last` or before, on a
/// low-priority thread. No caller waits for it, and meanwhile the attempt may get fragments with higher
/// numbers.
pub async fn compact_samples_up_to(
    store: &Store,
    id: &AttemptId,
    last_sequence: u64,
) -> Result<CompactedSamples, SealError> {
    let page = unsealed_fragments(store, id, last_sequence).await?;
    let (id, found_damage) = (id.clone(), store.found_damage());
    packed(packing_threads::run_on_packing_thread(move || pack_page(&id, page, found_damage)).await)
}

/// The fragments that begin at the sequence number `last` or before, as many as fit into one commit.
async fn unsealed_fragments(store: &Store, id: &AttemptId, last: u64) -> StoreResult<ScanPage> {
    let mut page = store.scan(&KeyKind::Fragment.prefix_of(id), None, FRAGMENTS_A_STEP).await?;
    let all = page.entries.len();
    page.entries.retain(|entry| keys::start_of(&entry.key).is_none_or(|start| start <= last));
    page.more &= page.entries.len() == all;
    Ok(page)
}

/// Turns the failure of the packing thread into an error of the store. Packing has a thread of its own because
/// a full step takes tens of milliseconds.
fn packed(
    packed: Result<Result<CompactedSamples, RecordError>, JoinError>,
) -> Result<CompactedSamples, SealError> {
    Ok(packed.map_err(|error| StoreError::Unavailable(format!("packing samples failed: {error}")))??)
}

fn pack_page(id: &AttemptId, page: ScanPage, found: FoundDamage) -> Result<CompactedSamples, RecordError> {
    let mut compaction = CompactedSamples { more: page.more, ..CompactedSamples::default() };
    let Some(start) = page.entries.first().and_then(|entry| keys::start_of(&entry.key)) else {
        return Ok(compaction);
    };
    let mut cursor = ChunkCursor::new(start, found);
    let mut runs = Vec::new();
    for entry in page.entries {
        cursor.read(&entry).into_iter().for_each(|run| series::push_run(&mut runs, rounded_for_block(run)));
        compaction.batch.delete(entry.key);
    }
    series::put_chunks(&mut compaction.batch, KeyKind::Block, id, runs, CompressionEffort::Smallest)?;
    Ok(compaction)
}

/// Rounds the CPU time of a run down to whole milliseconds, for a block; it still never decreases.
fn rounded_for_block(mut run: SampleRun) -> SampleRun {
    run.samples.iter_mut().for_each(|sample| sample.cpu.0 -= sample.cpu.0 % MICROS_A_MILLI);
    run
}

/// Ends an attempt. One commit stores the last blocks and the summary, and removes the record of the open
/// attempt.
pub async fn seal(store: &Store, attempt: &Attempt, summary: &Summary) -> Result<CommitReceipt, SealError> {
    loop {
        let CompactedSamples { mut batch, more } = compact_samples(store, &attempt.id).await?;
        if more {
            store.commit(batch).await?;
            continue;
        }
        records::put(&mut batch, summary)?;
        records::remove(&mut batch, attempt)?;
        return Ok(store.commit(batch).await?);
    }
}

/// Removes fragments that arrived after their attempt was sealed. Call it once when the server starts, before
/// any write.
///
/// Fragments of an attempt without a summary and without an open record are kept and logged: the store has
/// nothing else of that attempt.
pub async fn sweep_late_fragments(store: &Store) -> Result<DeleteProgress, SealError> {
    let (mut swept, mut after) = (DeleteProgress::default(), None);
    let one = PageLimit { items: 1, bytes: 1 };
    loop {
        let page = store.scan(&KeyKind::Fragment.prefix(), after.as_deref(), one).await?;
        let Some(id) = page.entries.first().and_then(|entry| keys::id_of(&entry.key)) else { break };
        let prefix = KeyKind::Fragment.prefix_of(&id);
        if !has_entries(store, KeyKind::Attempt, &id).await? {
            if has_entries(store, KeyKind::Summary, &id).await? {
                swept += delete_all(store, &prefix).await?;
            } else {
                tracing::warn!(attempt = %id, "the store holds samples of an unknown attempt");
            }
        }
        after = Some(keys::chunk(KeyKind::Fragment, &id, u64::MAX));
    }
    Ok(swept)
}

async fn has_entries(store: &Store, kind: KeyKind, id: &AttemptId) -> StoreResult<bool> {
    let page = store.scan(&kind.prefix_of(id), None, PageLimit { items: 1, bytes: 1 }).await?;
    Ok(!page.entries.is_empty())
}

async fn delete_all(store: &Store, prefix: &[u8]) -> Result<DeleteProgress, CommitError> {
    let mut deleted = DeleteProgress::default();
    loop {
        deleted += store.delete_prefix(prefix, PageLimit::PAGE).await?;
        if !deleted.more {
            return Ok(deleted);
        }
    }
}
