//! Downsampling of old samples: lists sealed blocks, and reduces the rows of one.

use plimsoll_core::domain::{AttemptId, Bytes, Millis, Sample};

use super::{
    Store,
    chunk::{self, CompressionEffort, SampleRun},
    errors::StoreResult,
    keys::{self, KeyKind},
    kv::{KeyValue, PageLimit},
};

/// Limits of one page of blocks: small, so that one step takes little time.
const PAGE_OF_BLOCKS: PageLimit = PageLimit { items: 64, bytes: 256 << 10 };

/// Memory is counted in multiples of this many bytes.
const PAGE_BYTES: u64 = 4096;

/// A page of sealed blocks.
#[derive(Debug, Default)]
pub struct SealedBlocks {
    /// The blocks with their attempts.
    pub blocks: Vec<(AttemptId, KeyValue)>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// Reads a page of sealed blocks, sorted by attempt id, from the first key after `after` on.
pub async fn blocks_after(store: &Store, after: Option<&[u8]>) -> StoreResult<SealedBlocks> {
    // a range of keys that cannot be read is skipped, with the blocks in it
    let (page, _gap) = store.scan_past(&KeyKind::Block.prefix(), after, PAGE_OF_BLOCKS).await?;
    let next = page.next_after();
    let owned = |entry: KeyValue| keys::id_of(&entry.key).map(|id| (id, entry));
    Ok(SealedBlocks { blocks: page.entries.into_iter().filter_map(owned).collect(), next })
}

/// Time of the block's last sample, since the start of its attempt; `None` if it has none, or cannot be read.
pub fn last_elapsed(block: &KeyValue) -> Option<Millis> {
    let runs = chunk::decode(keys::start_of(&block.key)?, &block.value.value).ok()?;
    runs.iter().rev().find_map(|run| run.samples.last()).map(|last| last.elapsed)
}

/// Reduces a block to one sample for each `width` of time; `None` if the result is not smaller, or if the block
/// cannot be read.
///
/// Each new sample has the mean memory of the old ones (in whole pages), their highest need, and the counters
/// of the last one. The other sequence numbers count as lost; the block keeps its last number.
pub fn downsampled(block: &KeyValue, width: Millis) -> Option<Vec<u8>> {
    let start = keys::start_of(&block.key)?;
    let runs = chunk::decode(start, &block.value.value).ok()?;
    let (first_sequence, end) = (runs.first()?.first_sequence, runs.last()?.end());
    let lost = first_sequence.checked_sub(start)?;
    let samples: Vec<Sample> = runs.into_iter().flat_map(|run| run.samples).collect();
    let rows = rows_of(&samples, width);
    if rows.is_empty() || rows.len() >= samples.len() {
        return None;
    }
    let rows = SampleRun { first_sequence, lost, samples: rows };
    let gap = SampleRun { first_sequence: end, lost: end.saturating_sub(rows.end()), samples: Vec::new() };
    let encoded = chunk::encode_all(vec![rows, gap], CompressionEffort::Smallest).ok()?;
    let [one] = <[chunk::EncodedChunk; 1]>::try_from(encoded).ok()?;
    Some(one.bytes).filter(|bytes| bytes.len() < block.value.value.len())
}

fn rows_of(samples: &[Sample], width: Millis) -> Vec<Sample> {
    let place = |sample: &Sample| sample.elapsed.0 / width.0.max(1);
    samples.chunk_by(|a, b| place(a) == place(b)).filter_map(row_of).collect()
}

/// Combines consecutive samples into one.
fn row_of(samples: &[Sample]) -> Option<Sample> {
    let last = *samples.last()?;
    if samples.len() == 1 {
        return Some(last);
    }
    let mean = |get: fn(&Sample) -> Bytes| {
        let sum: u128 = samples.iter().map(|sample| u128::from(get(sample).0)).sum();
        // the mean is at most the largest value, so it fits into u64; it is cut to a whole page, because a
        // fraction carries no information and compresses badly
        Bytes(u64::try_from(sum / samples.len() as u128).unwrap_or(u64::MAX) / PAGE_BYTES * PAGE_BYTES)
    };
    let highest = samples.iter().map(|sample| sample.need.max(sample.need_max.unwrap_or_default())).max();
    Some(Sample { memory: mean(|s| s.memory), need: mean(|s| s.need), need_max: highest, ..last })
}

/// Adds to a batch that `value` replaces `block`, or that the block is removed if `value` is `None`; returns
/// how many bytes this frees.
pub fn replace_block(batch: &mut super::Batch, block: KeyValue, value: Option<Vec<u8>>) -> u64 {
    let before = block.value.value.len();
    let after = value.as_ref().map_or(0, Vec::len);
    match value {
        Some(value) => batch.put(block.key, value),
        None => batch.delete(block.key),
    }
    before.saturating_sub(after) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::VersionedValue;

    fn block(samples: Vec<Sample>) -> KeyValue {
        let run = SampleRun { first_sequence: 3, lost: 2, samples };
        let encoded = chunk::encode_all(vec![run], CompressionEffort::Smallest).unwrap().remove(0);
        let key = keys::chunk(KeyKind::Block, &AttemptId::parse("a").unwrap(), encoded.start);
        KeyValue { key, value: VersionedValue { version: 1, value: encoded.bytes } }
    }

    #[test]
    fn downsampled_blocks_keep_peaks_and_last_counters() {
        let mixed = |n: u64| (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let need =
            |n: u64| Bytes(((mixed(mixed(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 50) << 12) + n % 5);
        let sample =
            |n| Sample { elapsed: Millis(n * 1000), need: need(n), oom_kill: Some(n), ..Sample::default() };
        let samples: Vec<Sample> = (0..600).map(sample).collect();
        let before = block(samples.clone());
        assert_eq!(last_elapsed(&before), Some(Millis(599_000)));
        let value = downsampled(&before, Millis(15_000)).unwrap();
        let after = KeyValue { value: VersionedValue { version: 2, value }, ..before };
        let [run, gap] = &chunk::decode(1, &after.value.value).unwrap()[..] else { panic!("rows and a gap") };
        assert_eq!((run.first_sequence, run.lost, run.samples.len()), (3, 2, 40));
        assert_eq!((gap.first_sequence, gap.lost, gap.samples.len()), (603, 560, 0), "up to its last number");
        for (row, part) in run.samples.iter().zip(samples.chunks(15)) {
            assert_eq!(row.need_max, part.iter().map(|s| s.need).max(), "exact");
            let mean = part.iter().map(|s| s.need.0).sum::<u64>() / 15;
            assert_eq!(row.need.0, mean / 4096 * 4096);
            assert_eq!((row.elapsed, row.oom_kill), (part[14].elapsed, part[14].oom_kill));
        }
        assert_eq!(downsampled(&after, Millis(15_000)), None, "once is enough");
        let value = downsampled(&after, Millis(u64::MAX)).unwrap();
        let [row, gap] = &chunk::decode(1, &value).unwrap()[..] else { panic!("a row and a gap") };
        let peak = samples.iter().map(|sample| sample.need).max();
        assert_eq!((row.samples.len(), row.samples[0].need_max, gap.end()), (1, peak, 603), "all in one");
    }

    #[test]
    fn what_cannot_be_read_or_made_smaller_stays() {
        let mut few = block(vec![Sample::default()]);
        assert_eq!(downsampled(&few, Millis(15_000)), None);
        few.value.value[2] ^= 1;
        assert_eq!(downsampled(&few, Millis(15_000)), None);
    }
}
