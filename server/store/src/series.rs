//! The samples of one attempt, as runs with their gaps.
//!
//! Chunks may overlap: an agent that got no answer sends its samples again, and may split them into other
//! batches. Each sample has a sequence number, so a reader that skips numbers it has already read returns each
//! sample once.

use plimsoll_core::domain::{AttemptId, Sample};

use super::{
    Store,
    chunk::{self, CompressionEffort, SampleRun},
    envelope::RecordError,
    errors::StoreResult,
    found_damage::FoundDamage,
    keys::{self, KeyKind},
    kv::{Batch, KeyValue, PageLimit},
};

/// Sequence number of an attempt's first sample.
const FIRST_SEQUENCE: u64 = 1;

/// All samples of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesRead {
    /// Runs of samples in order; each run after the first starts after a gap.
    pub runs: Vec<SampleRun>,
    /// Extent of the series, and what is missing.
    pub extent: SeriesExtent,
}

/// Extent of a series, and what is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeriesExtent {
    /// The last sequence number that is stored or recorded as lost; 0 if there is none.
    pub last_sequence: u64,
    /// Number of stored samples.
    pub samples: u64,
    /// Number of samples in fragments, that is not yet in a sealed block.
    pub loose: u64,
    /// Number of sequence numbers without a sample, up to the last number, for any reason.
    pub lost: u64,
    /// Number of chunks that could not be decoded. Their sequence numbers count as lost, except at the end of
    /// the series.
    pub damaged: u64,
}

/// Adds fragments with `samples`. The first sample has the sequence number `first_sequence`; the `lost` numbers
/// before it have no sample.
///
/// Without samples it records that the numbers before `first_sequence` are lost.
pub fn append_fragment(
    batch: &mut Batch,
    id: &AttemptId,
    first_sequence: u64,
    lost: u64,
    samples: impl Into<Vec<Sample>>,
) -> Result<(), RecordError> {
    let samples = samples.into();
    let lost = lost.min(first_sequence.saturating_sub(FIRST_SEQUENCE));
    if samples.is_empty() && lost == 0 {
        return Ok(());
    }
    let run = SampleRun { first_sequence, lost, samples };
    put_chunks(batch, KeyKind::Fragment, id, vec![run], CompressionEffort::Fast)
}

/// Adds the chunks of consecutive runs to a batch, as fragments or blocks.
pub(super) fn put_chunks(
    batch: &mut Batch,
    kind: KeyKind,
    id: &AttemptId,
    runs: Vec<SampleRun>,
    effort: CompressionEffort,
) -> Result<(), RecordError> {
    let unencodable = |damage: super::bytes::Damage| RecordError::Unencodable {
        key: keys::text(&kind.prefix_of(id)),
        reason: damage.0,
    };
    for encoded in chunk::encode_all(runs, effort).map_err(unencodable)? {
        batch.put(keys::chunk(kind, id, encoded.start), encoded.bytes);
    }
    Ok(())
}

/// Passes the runs of an attempt to `take`, sorted by number, and returns their extent.
///
/// However long the series is, only its fragments (compaction keeps them few) and one page of blocks are in
/// memory. The fragments are read before the blocks, although their samples are later: a compaction at the same
/// time moves samples from fragments to blocks, so no sample is missed.
pub async fn each_run(
    store: &Store,
    id: &AttemptId,
    take: impl FnMut(SampleRun) + Send,
) -> StoreResult<SeriesExtent> {
    read_runs(store, id, take, false).await
}

/// Like [`each_run`], but a range of keys that cannot be read becomes a gap.
pub async fn each_run_past_damage(
    store: &Store,
    id: &AttemptId,
    take: impl FnMut(SampleRun) + Send,
) -> StoreResult<SeriesExtent> {
    read_runs(store, id, take, true).await
}

async fn read_runs(
    store: &Store,
    id: &AttemptId,
    mut take: impl FnMut(SampleRun) + Send,
    past_damage: bool,
) -> StoreResult<SeriesExtent> {
    let mut fragments = Vec::new();
    each_page(store, &KeyKind::Fragment.prefix_of(id), past_damage, |page| fragments.extend(page)).await?;
    let mut cursor = ChunkCursor::new(FIRST_SEQUENCE, store.found_damage());
    let blocks = KeyKind::Block.prefix_of(id);
    let mut read = |page: Vec<KeyValue>| page.iter().flat_map(|e| cursor.read(e)).for_each(&mut take);
    each_page(store, &blocks, past_damage, &mut read).await?;
    let sealed = cursor.extent.samples;
    fragments.iter().flat_map(|entry| cursor.read(entry)).for_each(&mut take);
    let extent = cursor.extent();
    Ok(SeriesExtent { loose: extent.samples - sealed, ..extent })
}

/// Passes all entries with `prefix` to `take`, a page at a time.
async fn each_page(
    store: &Store,
    prefix: &[u8],
    past_damage: bool,
    mut take: impl FnMut(Vec<KeyValue>) + Send,
) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = if past_damage {
            store.scan_past(prefix, after.as_deref(), PageLimit::PAGE).await?.0
        } else {
            store.scan(prefix, after.as_deref(), PageLimit::PAGE).await?
        };
        after = page.next_after();
        take(page.entries);
        if after.is_none() {
            return Ok(());
        }
    }
}

/// All samples of an attempt, in memory.
pub async fn read_series(store: &Store, id: &AttemptId) -> StoreResult<SeriesRead> {
    let mut runs: Vec<SampleRun> = Vec::new();
    let extent = each_run(store, id, |run| push_run(&mut runs, run)).await?;
    Ok(SeriesRead { runs, extent })
}

/// Appends a run. It is merged with the last run if no sample is missing between them, or if the last run has
/// no samples.
pub(super) fn push_run(runs: &mut Vec<SampleRun>, run: SampleRun) {
    match runs.last_mut() {
        Some(last) if last.samples.is_empty() => *last = SampleRun { lost: last.lost + run.lost, ..run },
        Some(last) if run.lost == 0 => last.samples.extend(run.samples),
        _ => runs.push(run),
    }
}

/// Reads chunks in the order of their keys, and returns each sequence number once.
#[derive(Debug)]
pub(super) struct ChunkCursor {
    /// The next sequence number to return.
    next: u64,
    extent: SeriesExtent,
    found_damage: FoundDamage,
}

impl ChunkCursor {
    /// A cursor that starts at the sequence number `next`.
    pub(super) fn new(next: u64, found_damage: FoundDamage) -> Self {
        Self { next, extent: SeriesExtent::default(), found_damage }
    }

    /// Extent of the samples that were read so far.
    pub(super) fn extent(&self) -> SeriesExtent {
        SeriesExtent { last_sequence: self.next.saturating_sub(1), ..self.extent }
    }

    /// Decodes a chunk, and returns its runs without the samples that were read before. A damaged chunk is
    /// noted and counted, and becomes a gap.
    pub(super) fn read(&mut self, entry: &KeyValue) -> Vec<SampleRun> {
        let Some(start) = keys::start_of(&entry.key) else { return Vec::new() };
        match chunk::decode(start, &entry.value.value) {
            Ok(runs) => runs.into_iter().filter_map(|run| self.new_part(run)).collect(),
            Err(damage) => {
                self.extent.damaged += 1;
                self.found_damage.note_record(&entry.key, &damage);
                Vec::new()
            }
        }
    }

    /// Cuts the samples that were read before from a run; `None` if none remain. Sequence numbers missing
    /// before the run count as its lost ones.
    fn new_part(&mut self, mut run: SampleRun) -> Option<SampleRun> {
        let end = run.end();
        if end <= self.next {
            return None;
        }
        let known = self.next.saturating_sub(run.first_sequence);
        run.samples.drain(..usize::try_from(known).unwrap_or(usize::MAX).min(run.samples.len()));
        run.first_sequence = run.first_sequence.max(self.next);
        run.lost = run.first_sequence - self.next;
        self.extent.lost += run.lost;
        self.extent.samples += run.samples.len() as u64;
        self.next = end;
        Some(run)
    }
}
