//! From fragments to blocks, and from an open attempt to a summary.
//!
//! Every step is one commit that holds the new and removes the old, so a crash leaves the one or the other.

use plimsoll_core::domain::{Attempt, AttemptId, Summary};
use tokio::task::JoinError;

use super::{
    Store,
    bounds::BATCH_BYTES,
    chunk::{CompressionEffort, SampleRun},
    envelope::RecordError,
    errors::{CommitError, StoreError},
    keys::{self, KeyKind},
    kv::{Batch, CommitReceipt, DeleteProgress, PageLimit, ScanPage},
    packing_threads,
    records::{self, SealError},
    series::{self, ChunkCursor},
};

/// How much one step compacts. With the blocks it becomes and the record of the end, it fits into one commit.
const STEP: PageLimit = PageLimit { items: 700, bytes: BATCH_BYTES / 2 };

/// CPU microseconds in the millisecond that a block keeps.
const MICROS_A_MILLI: u64 = 1000;

/// A batch that turns fragments into blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactedSamples {
    /// Puts the blocks and removes the fragments; empty if there are no fragments.
    pub batch: Batch,
    /// There may be fragments left: commit this batch and compact again.
    pub more: bool,
}

/// The batch that turns all fragments of an attempt into blocks, as many as fit into one commit.
///
/// Nothing may append to the attempt between this call and the commit of the batch: what is appended in between, under the
/// key of a fragment that the batch removes, would be lost. The one writer of an attempt sees to that.
pub async fn compact_samples(store: &Store, id: &AttemptId) -> Result<CompactedSamples, SealError> {
    let page = loose(store, id, u64::MAX).await?;
    let id = id.clone();
    // the end of an attempt waits for this: on a thread as any other
    packed(tokio::task::spawn_blocking(move || pack(&id, page)).await)
}

/// The same for the fragments that begin with a number up to `last`, while no caller waits for it: on a thread that yields to others.
/// Behind that number the attempt may grow meanwhile.
pub async fn compact_samples_up_to(
    store: &Store,
    id: &AttemptId,
    last: u64,
) -> Result<CompactedSamples, SealError> {
    let page = loose(store, id, last).await?;
    let id = id.clone();
    packed(packing_threads::pack_aside(move || pack(&id, page)).await)
}

/// As many fragments as fit into one commit, of those that begin with a number up to `last`.
async fn loose(store: &Store, id: &AttemptId, last: u64) -> Result<ScanPage, StoreError> {
    let mut page = store.scan(&KeyKind::Fragment.prefix_of(id), None, STEP).await?;
    let all = page.entries.len();
    page.entries.retain(|entry| keys::start_of(&entry.key).is_none_or(|start| start <= last));
    page.more &= page.entries.len() == all;
    Ok(page)
}

/// Packing a full step takes tens of milliseconds: too long for a thread that serves others.
fn packed(
    packed: Result<Result<CompactedSamples, RecordError>, JoinError>,
) -> Result<CompactedSamples, SealError> {
    Ok(packed.map_err(|error| StoreError::Unavailable(format!("packing samples failed: {error}")))??)
}

fn pack(id: &AttemptId, page: ScanPage) -> Result<CompactedSamples, RecordError> {
    let mut compaction = CompactedSamples { more: page.more, ..CompactedSamples::default() };
    let Some(start) = page.entries.first().and_then(|entry| keys::start_of(&entry.key)) else {
        return Ok(compaction);
    };
    let mut cursor = ChunkCursor::new(start);
    let mut runs = Vec::new();
    for entry in page.entries {
        cursor.read(&entry).into_iter().for_each(|run| series::push_run(&mut runs, settled(run)));
        compaction.batch.delete(entry.key);
    }
    series::put_chunks(&mut compaction.batch, KeyKind::Block, id, runs, CompressionEffort::Smallest)?;
    Ok(compaction)
}

/// A run as it is kept for ever: CPU time in whole milliseconds, rounded down, so that it still never goes back.
///
/// The microseconds are noise of the reading and would take a fourth of the bytes of a block. The summary has the exact total.
fn settled(mut run: SampleRun) -> SampleRun {
    run.samples.iter_mut().for_each(|sample| sample.cpu.0 -= sample.cpu.0 % MICROS_A_MILLI);
    run
}

/// Ends an attempt: the last blocks, the summary and the end of the open attempt in one commit.
pub async fn seal(store: &Store, attempt: &Attempt, summary: &Summary) -> Result<CommitReceipt, SealError> {
    loop {
        let CompactedSamples { mut batch, more } = compact_samples(store, &attempt.id).await?;
        if more {
            store.commit(batch).await?;
            continue;
        }
        records::put_summary(&mut batch, summary)?;
        records::delete_attempt(&mut batch, attempt)?;
        return Ok(store.commit(batch).await?);
    }
}

/// Removes fragments that came after their attempt was sealed. To be called once, at the start, before anything is written.
///
/// Fragments of an attempt that has neither a summary nor an open record are kept and logged: they are all there is of it.
pub async fn sweep(store: &Store) -> Result<DeleteProgress, SealError> {
    let (mut swept, mut after) = (DeleteProgress::default(), None);
    let one = PageLimit { items: 1, bytes: 1 };
    loop {
        let page = store.scan(&KeyKind::Fragment.prefix(), after.as_deref(), one).await?;
        let Some(id) = page.entries.first().and_then(|entry| keys::id_of(&entry.key)) else { break };
        let prefix = KeyKind::Fragment.prefix_of(&id);
        if !holds(store, KeyKind::Attempt, &id).await? {
            if holds(store, KeyKind::Summary, &id).await? {
                swept += delete_all(store, &prefix).await?;
            } else {
                tracing::warn!(attempt = %id, "the store holds samples of an unknown attempt");
            }
        }
        after = Some(keys::chunk(KeyKind::Fragment, &id, u64::MAX));
    }
    Ok(swept)
}

/// True if anything of this kind is stored for `id`.
async fn holds(store: &Store, kind: KeyKind, id: &AttemptId) -> Result<bool, StoreError> {
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
