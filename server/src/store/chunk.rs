//! A chunk: neighbouring samples of one attempt and the gaps between them, in one value of the store.
//!
//! Fragments are packed fast, because they live until they are rolled into a block; blocks stay for ever, so they are made as small
//! as it goes. Bytes are in `FORMAT.md`. Decoding allocates for 4,096 samples at most and never panics.

use super::{
    block::{MAX_BLOCK_SAMPLES, put_block, read_block},
    bytes::{self, Damage, Reader, put_varint},
    columns::{COLUMNS, MAX_SAMPLES, OPTIONAL_COLUMNS, Packing, put_columns, read_columns},
    kv::MAX_VALUE,
};
use crate::domain::Sample;

const VARINT: u8 = 1;
const ZSTD: u8 = 2;
const PCO: u8 = 3;
const LANES: u8 = 4;

/// Longest body of codec 1: 900 samples in runs of one (two varints each), a bit map for each optional column, and all
/// columns with long varints.
const MAX_BODY: usize = 32
    + (MAX_SAMPLES + 1) * 20
    + OPTIONAL_COLUMNS * MAX_SAMPLES.div_ceil(8)
    + COLUMNS * (MAX_SAMPLES + 1) * 10;

/// How much work to put into a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Codec 1, of up to 900 samples.
    Fast,
    /// Codec 4, of up to 4,096 samples.
    Smallest,
}

impl Effort {
    fn most_samples(self) -> usize {
        match self {
            Self::Fast => MAX_SAMPLES,
            Self::Smallest => MAX_BLOCK_SAMPLES,
        }
    }
}

/// Numbers without a sample, then samples with the numbers that follow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Number of the first sample; of the next one, if there are none.
    pub first_sequence: u64,
    /// Numbers just before it that have no sample.
    pub lost: u64,
    /// The samples, numbered without gaps.
    pub samples: Vec<Sample>,
}

impl Run {
    /// The first number that it speaks of.
    pub(super) fn start(&self) -> u64 {
        self.first_sequence.saturating_sub(self.lost)
    }

    /// The number after its last sample.
    pub(super) fn end(&self) -> u64 {
        self.first_sequence.saturating_add(self.samples.len() as u64)
    }
}

/// An encoded chunk and the number that belongs into its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// First number that it speaks of.
    pub(super) start: u64,
    /// The value.
    pub(super) bytes: Vec<u8>,
}

/// Cuts neighbouring runs into chunks of about equal size, each of which fits into a value.
pub(super) fn encode_all(runs: Vec<Run>, effort: Effort) -> Result<Vec<Encoded>, Damage> {
    let mut done = Vec::new();
    let mut waiting = vec![runs];
    while let Some(runs) = waiting.pop() {
        let Some(start) = runs.first().map(Run::start) else { continue };
        let count: usize = runs.iter().map(|run| run.samples.len()).sum();
        let mut pieces = count.div_ceil(effort.most_samples());
        if pieces <= 1 {
            let bytes = encode(&runs, effort)?;
            if bytes.len() <= MAX_VALUE {
                done.push(Encoded { start, bytes });
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

/// Splits runs after every `size` samples.
fn split(runs: Vec<Run>, size: usize) -> Vec<Vec<Run>> {
    let mut pieces = vec![Vec::new()];
    let mut room = size;
    for mut run in runs {
        loop {
            if room == 0 {
                pieces.push(Vec::new());
                room = size;
            }
            let rest = run.samples.split_off(run.samples.len().min(room));
            let next = Run { first_sequence: run.end(), lost: 0, samples: rest };
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

fn encode(runs: &[Run], effort: Effort) -> Result<Vec<u8>, Damage> {
    let joined: Vec<Sample>;
    let samples = match runs {
        [one] => &one.samples,
        _ => {
            joined = runs.iter().flat_map(|run| &run.samples).copied().collect();
            &joined
        }
    };
    let mut out = vec![if effort == Effort::Fast { VARINT } else { LANES }];
    put_varint(&mut out, runs.len() as u64);
    for run in runs {
        put_varint(&mut out, run.lost);
        put_varint(&mut out, run.samples.len() as u64);
    }
    match effort {
        Effort::Fast => put_columns(&mut out, samples, Packing::Varint)?,
        Effort::Smallest => put_block(&mut out, samples)?,
    }
    Ok(bytes::seal(out))
}

/// The runs of a chunk that lies under a key with this `start`.
pub(super) fn decode(start: u64, value: &[u8]) -> Result<Vec<Run>, Damage> {
    let (codec, body) = bytes::open(value)?;
    match codec {
        VARINT => decode_body(start, body, Form::Columns(Packing::Varint)),
        PCO => decode_body(start, body, Form::Columns(Packing::Pco)),
        LANES => decode_body(start, body, Form::Lanes),
        ZSTD => {
            let body = zstd::bulk::decompress(body, MAX_BODY)
                .map_err(|error| Damage::new(format!("zstd cannot unpack it: {error}")))?;
            decode_body(start, &body, Form::Columns(Packing::Varint))
        }
        _ => Err(Damage::new(format!("codec {codec} is not known; written by a newer version?"))),
    }
}

/// How samples stand behind the runs.
#[derive(Debug, Clone, Copy)]
enum Form {
    Columns(Packing),
    Lanes,
}

fn decode_body(start: u64, body: &[u8], form: Form) -> Result<Vec<Run>, Damage> {
    let mut reader = Reader(body);
    let most = if matches!(form, Form::Lanes) { MAX_BLOCK_SAMPLES } else { MAX_SAMPLES };
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
        runs.push((Run { first_sequence: first, lost, samples: Vec::new() }, count));
        number = end;
    }
    let samples = match form {
        Form::Columns(packing) => read_columns(&mut reader, total, packing)?,
        Form::Lanes => read_block(&mut reader, total)?,
    };
    reader.end()?;
    let mut samples = samples.into_iter();
    Ok(runs
        .into_iter()
        .map(|(run, count)| Run { samples: samples.by_ref().take(count).collect(), ..run })
        .collect())
}

#[cfg(test)]
mod tests;
