//! Downsamples and deletes old samples, by the rules of [`super::aging`]. [`super::summaries`]
//! deletes summaries.
//!
//! A pass goes over all sealed blocks in small steps, at most one a tick, between requests.
//! Afterwards it pauses for an hour, or until samples of about an eighth of the byte limit were
//! added. If all samples exceed the limit, the pass finds the time before which samples must go, and
//! the next pass deletes them.

use std::time::Instant;

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{self as store, Batch, KeyValue, SealError, StoreError};

use super::{
    Retention,
    aging::{AgeLimits, BlockFate, BlockOwner},
};
use crate::runtime::metrics::KindLabel;

/// A block, the time of its samples, what happens to it, and its downsampled form if there is one.
type PackedBlock = (KeyValue, u64, BlockFate, Option<Vec<u8>>);

impl Retention {
    /// The trusted time, milliseconds since 1970, for decisions on what to delete.
    pub(super) fn trusted_now(&mut self) -> u64 {
        let history = &self.parts.history;
        let newest =
            || history.read(|history| history.newest_first().next().map(|brief| brief.ended_unix_ms()));
        self.samples.clock.now(self.parts.clock.now_unix_ms(), Instant::now(), newest)
    }

    pub(super) async fn thin_page(
        &mut self,
        now: u64,
        running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync),
    ) -> Result<(), SealError> {
        let page = store::blocks_after(&self.parts.store, self.samples.after_key.as_deref()).await?;
        let (mut batch, mut downsampled, mut removed) = (Batch::default(), 0, 0);
        let mut owned = Vec::with_capacity(page.blocks.len());
        for (id, block) in page.blocks {
            owned.push((self.owner(&id, running_since).await?, block));
        }
        let horizon = self.samples.horizon(&self.parts.policy, now);
        for (block, time, fate, value) in pack_blocks(owned, horizon).await? {
            match (fate, value) {
                (BlockFate::Goes, _) => {
                    removed += 1;
                    store::replace_block(&mut batch, block, None);
                }
                (BlockFate::Thins(_), Some(value)) => {
                    downsampled += 1;
                    self.samples.count(time, value.len());
                    store::replace_block(&mut batch, block, Some(value));
                }
                _ => self.samples.count(time, block.value.value.len()),
            }
        }
        if !batch.is_empty() {
            self.parts.store.commit(batch).await?;
        }
        let blocks = &self.parts.metrics.series_blocks;
        blocks.get_or_create(&KindLabel::of("thinned")).inc_by(downsampled);
        blocks.get_or_create(&KindLabel::of("removed")).inc_by(removed);
        self.samples.after_key = page.next;
        if self.samples.after_key.is_none() {
            let kept = self.samples.end(&self.parts.policy, now);
            self.parts.metrics.series_bytes.set(kept);
        }
        Ok(())
    }

    /// Whether the attempt of a block is running, has ended, or is unknown.
    async fn owner(
        &mut self,
        id: &AttemptId,
        running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync),
    ) -> Result<BlockOwner, SealError> {
        if let Some((_, owner)) = self.samples.last.as_ref().filter(|(last, _)| last == id) {
            return Ok(*owner);
        }
        let owner = match (store::read_summary(&self.parts.store, id).await, running_since(id)) {
            (Ok(Some(summary)), _) => BlockOwner::Ended(summary.ended_unix_ms()),
            (Ok(None), Some(started)) => BlockOwner::Running(started),
            // the samples of an attempt with a damaged summary stay; other attempts are processed as usual
            (Ok(None), None) | (Err(StoreError::Damaged { .. }), _) => BlockOwner::Unknown,
            (Err(error), _) => return Err(error.into()),
        };
        self.samples.last = Some((id.clone(), owner));
        Ok(owner)
    }
}

/// Decides what happens to each block, and downsamples. That takes long, so it does not run on a
/// thread that serves requests; and at normal priority, because the single writer waits for it.
async fn pack_blocks(
    owned: Vec<(BlockOwner, KeyValue)>,
    horizon: AgeLimits,
) -> Result<Vec<PackedBlock>, StoreError> {
    let pack = move |(owner, block): (BlockOwner, KeyValue)| {
        let time = match owner {
            BlockOwner::Ended(time) => time,
            BlockOwner::Running(started) => {
                started.saturating_add(store::last_elapsed(&block).unwrap_or_default().0)
            }
            // these blocks stay, and count as the newest for the byte limit
            BlockOwner::Unknown => u64::MAX,
        };
        let fate = horizon.fate(owner, time);
        let value = match fate {
            BlockFate::Thins(width) => store::downsampled(&block, width),
            BlockFate::Stays | BlockFate::Goes => None,
        };
        (block, time, fate, value)
    };
    let packed = tokio::task::spawn_blocking(move || owned.into_iter().map(pack).collect()).await;
    packed.map_err(|error| StoreError::Unavailable(format!("packing samples failed: {error}")))
}

#[cfg(test)]
mod tests;
