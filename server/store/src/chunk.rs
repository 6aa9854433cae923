//! A chunk: consecutive samples of one attempt, and the gaps between them, in one value of the store. It is a fragment or a block.
//!
//! Fragments are packed fast, because they are soon compacted into a block; blocks are permanent, so they are made as small as possible.
//! `FORMAT.md` has the bytes. Decoding allocates for at most 4,096 samples and never panics.

use std::borrow::Cow;

use plimsoll_core::domain::Sample;

use super::{
    block::{MAX_BLOCK_SAMPLES, put_block, read_block},
    bounds::MAX_VALUE,
    bytes::{self, ByteReader, Damage, put_varint},
    codec::unknown_codec,
    columns::{MAX_SAMPLES, put_columns, read_columns},
};

/// Codec 1: samples as columns of varints, for fragments.
const COLUMNS_CODEC: u8 = 1;
/// Codec 4: samples as lanes, for blocks.
const LANES_CODEC: u8 = 4;

/// How much effort is spent to make a chunk small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompressionEffort {
    /// Little effort: codec 1, for up to 900 samples.
    Fast,
    /// Much effort: codec 4, for up to 4,096 samples.
    Smallest,
}

impl CompressionEffort {
    fn most_samples(self) -> usize {
        match self {
            Self::Fast => MAX_SAMPLES,
            Self::Smallest => MAX_BLOCK_SAMPLES,
        }
    }
}

/// A range of lost sequence numbers, followed by samples with the next numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleRun {
    /// Sequence number of the first sample; of the next sample if the run has none.
    pub first_sequence: u64,
    /// How many numbers directly before `first_sequence` have no sample.
    pub lost: u64,
    /// The samples, numbered without gaps.
    pub samples: Vec<Sample>,
}

impl SampleRun {
    /// The first sequence number of the run, lost numbers included.
    pub(super) fn start(&self) -> u64 {
        self.first_sequence.saturating_sub(self.lost)
    }

    /// The sequence number after the last sample.
    pub(super) fn end(&self) -> u64 {
        self.first_sequence.saturating_add(self.samples.len() as u64)
    }
}

/// A chunk as bytes, with the sequence number that its key contains.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedChunk {
    /// First sequence number of the chunk, lost numbers included.
    pub(super) start: u64,
    /// The bytes to store.
    pub(super) bytes: Vec<u8>,
}

/// Splits consecutive runs into chunks of about equal size. Each chunk fits into one value of the store.
pub(super) fn encode_all(
    runs: Vec<SampleRun>,
    effort: CompressionEffort,
) -> Result<Vec<EncodedChunk>, Damage> {
    let mut done = Vec::new();
    let mut waiting = vec![runs];
    while let Some(runs) = waiting.pop() {
        let Some(start) = runs.first().map(SampleRun::start) else { continue };
        let count: usize = runs.iter().map(|run| run.samples.len()).sum();
        let mut pieces = count.div_ceil(effort.most_samples());
        if pieces <= 1 {
            let bytes = encode(&runs, effort)?;
            if bytes.len() <= MAX_VALUE {
                done.push(EncodedChunk { start, bytes });
                continue;
            }
            pieces = bytes.len() / MAX_VALUE + 1;
        }
        if count < 2 {
            return Err(Damage::new("one sample does not fit into a value"));
        }
        waiting.extend(split(runs, count.div_ceil(pieces)).into_iter().rev());
    }
    Ok(done)
}

/// Splits runs into pieces of `size` samples each; the last piece may have fewer.
fn split(runs: Vec<SampleRun>, size: usize) -> Vec<Vec<SampleRun>> {
    let mut pieces = vec![Vec::new()];
    let mut room = size;
    for mut run in runs {
        loop {
            if room == 0 {
                pieces.push(Vec::new());
                room = size;
            }
            let rest = run.samples.split_off(run.samples.len().min(room));
            let next = SampleRun { first_sequence: run.end(), lost: 0, samples: rest };
            room -= run.samples.len();
            pieces.last_mut().map(|piece| piece.push(run)).unwrap_or_default();
            if next.samples.is_empty() {
                break;
            }
            run = next;
        }
    }
    pieces
}

fn encode(runs: &[SampleRun], effort: CompressionEffort) -> Result<Vec<u8>, Damage> {
    let samples: Cow<'_, [Sample]> = if let [one] = runs {
        Cow::Borrowed(&one.samples)
    } else {
        runs.iter().flat_map(|run| &run.samples).copied().collect()
    };
    let mut out = vec![if effort == CompressionEffort::Fast { COLUMNS_CODEC } else { LANES_CODEC }];
    put_varint(&mut out, runs.len() as u64);
    for run in runs {
        put_varint(&mut out, run.lost);
        put_varint(&mut out, run.samples.len() as u64);
    }
    match effort {
        CompressionEffort::Fast => put_columns(&mut out, &samples),
        CompressionEffort::Smallest => put_block(&mut out, &samples)?,
    }
    Ok(bytes::with_checksum(out))
}

/// Reads the given number of samples; a chunk has them after the lengths of its runs.
type SampleReader = fn(&mut ByteReader<'_>, usize) -> Result<Vec<Sample>, Damage>;

/// Decodes a chunk into runs. `start` is the sequence number in the chunk's key.
pub(super) fn decode(start: u64, value: &[u8]) -> Result<Vec<SampleRun>, Damage> {
    let (codec, body) = bytes::checked(value)?;
    let (most, read): (usize, SampleReader) = match codec {
        COLUMNS_CODEC => (MAX_SAMPLES, read_columns),
        LANES_CODEC => (MAX_BLOCK_SAMPLES, read_block),
        _ => return Err(unknown_codec(codec)),
    };
    let mut reader = ByteReader(body);
    let headers = reader.count("runs", most + 1)?;
    let mut runs = Vec::with_capacity(headers);
    let (mut number, mut total) = (start, 0);
    for _ in 0..headers {
        let lost = reader.varint()?;
        let count = reader.count("samples", most - total)?;
        total += count;
        let first = number.checked_add(lost);
        let end = first.and_then(|first| first.checked_add(count as u64));
        let (Some(first), Some(end)) = (first, end) else {
            return Err(Damage::new("sequence numbers run over"));
        };
        runs.push((SampleRun { first_sequence: first, lost, samples: Vec::new() }, count));
        number = end;
    }
    let samples = read(&mut reader, total)?;
    reader.end()?;
    let mut samples = samples.into_iter();
    Ok(runs
        .into_iter()
        .map(|(run, count)| SampleRun { samples: samples.by_ref().take(count).collect(), ..run })
        .collect())
}

#[cfg(test)]
mod tests;
