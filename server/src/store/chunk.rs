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
    let samples: Vec<Sample> = runs.iter().flat_map(|run| &run.samples).copied().collect();
    let mut out = vec![if effort == Effort::Fast { VARINT } else { LANES }];
    put_varint(&mut out, runs.len() as u64);
    for run in runs {
        put_varint(&mut out, run.lost);
        put_varint(&mut out, run.samples.len() as u64);
    }
    match effort {
        Effort::Fast => put_columns(&mut out, &samples, Packing::Varint)?,
        Effort::Smallest => put_block(&mut out, &samples)?,
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
mod tests {
    use proptest::{
        array::{uniform4, uniform8},
        collection::vec,
        option,
        prelude::*,
    };

    use super::*;
    use crate::{
        domain::{Bytes, CpuMicros, Micros, Millis},
        store::series::push_run,
    };

    /// Numbers as builds have them, and the ones that break arithmetic.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..5_u64, (0..1_u64 << 22).prop_map(|page| page * 4096), any::<u64>(), Just(u64::MAX)]
    }

    /// The columns that every sample has, and those that it may lack.
    type Row = ([u64; 4], [Option<u64>; 8]);

    /// Columns of every mix: some whole ones absent or of one value, the others with and without values.
    fn samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
        let row = (uniform4(number()), uniform8(option::of(number())));
        (vec(row, 0..most), any::<u8>(), any::<u8>())
            .prop_map(|(rows, absent, equal)| shaped(&rows, absent, equal))
    }

    /// Samples whose optional columns are absent if they are in `absent`, else all as in the first row if they are in `equal`.
    fn shaped(rows: &[Row], absent: u8, equal: u8) -> Vec<Sample> {
        let first = rows.first().map(|(_, optional)| *optional).unwrap_or_default();
        let is_in = |columns: u8, index: usize| columns >> index & 1 == 1;
        let value = |own: Option<u64>, index: usize| {
            if is_in(equal, index) { first[index] } else { own }.filter(|_| !is_in(absent, index))
        };
        let optional = |own: &[Option<u64>; 8]| std::array::from_fn(|index| value(own[index], index));
        rows.iter().map(|(required, own)| sample(*required, optional(own))).collect()
    }

    fn sample([elapsed, memory, need, cpu]: [u64; 4], optional: [Option<u64>; 8]) -> Sample {
        let [peak, oom_kill, reclaim_failures, need_max, memory_stall, refaults, throttled, starved] =
            optional;
        Sample {
            elapsed: Millis(elapsed),
            memory: Bytes(memory),
            need: Bytes(need),
            memory_peak: peak.map(Bytes),
            cpu: CpuMicros(cpu),
            oom_kill,
            reclaim_failures,
            need_max: need_max.map(Bytes),
            memory_stall: memory_stall.map(Micros),
            refaults,
            throttled: throttled.map(Micros),
            starved: starved.map(Millis),
        }
    }

    /// Neighbouring runs, all but the last with samples.
    fn runs() -> impl Strategy<Value = Vec<Run>> {
        (vec((0..3_u64, samples(300)), 0..5), 0..3_u64).prop_map(|(parts, lost_at_end)| {
            let full = parts.into_iter().filter(|(_, samples)| !samples.is_empty());
            let numbered = full.chain([(lost_at_end, Vec::new())]).scan(1, |next, (lost, samples)| {
                let run = Run { first_sequence: *next + lost, lost, samples };
                *next = run.end();
                Some(run)
            });
            numbered.collect()
        })
    }

    fn joined(runs: impl IntoIterator<Item = Run>) -> Vec<Run> {
        let mut joined = Vec::new();
        runs.into_iter().for_each(|run| push_run(&mut joined, run));
        joined
    }

    fn total(encoded: &[Encoded]) -> Vec<Run> {
        joined(encoded.iter().flat_map(|chunk| decode(chunk.start, &chunk.bytes).unwrap()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_sample_and_every_gap_comes_back(runs in runs(), smallest in any::<bool>()) {
            let effort = if smallest { Effort::Smallest } else { Effort::Fast };
            let encoded = encode_all(runs.clone(), effort).unwrap();
            prop_assert!(encoded.iter().all(|chunk| chunk.bytes.len() <= MAX_VALUE));
            prop_assert_eq!(total(&encoded), joined(runs));
        }

        #[test]
        fn each_older_codec_is_lossless_by_itself(samples in samples(60)) {
            for packing in [Packing::Varint, Packing::Pco] {
                let mut out = Vec::new();
                put_columns(&mut out, &samples, packing).unwrap();
                let mut reader = Reader(&out);
                prop_assert_eq!(&read_columns(&mut reader, samples.len(), packing).unwrap(), &samples);
                prop_assert_eq!(reader.end(), Ok(()));
            }
        }

        #[test]
        fn hostile_bytes_are_damage_and_no_panic(
            codec in 0..6_u8, body in vec(any::<u8>(), 0..300), start in any::<u64>(),
        ) {
            let value = bytes::seal([&[codec], body.as_slice()].concat());
            let decoded: usize = decode(start, &value).unwrap_or_default().iter().map(|run| run.samples.len()).sum();
            prop_assert!(decoded <= MAX_BLOCK_SAMPLES);
            prop_assert!(decode(start, &body).is_err(), "without a checksum nothing is believed");
        }

        #[test]
        fn a_forged_block_is_damage_and_no_panic(
            samples in samples(100), at in any::<prop::sample::Index>(), with in any::<u8>(), codec in 1..5_u8,
        ) {
            let mut body = vec![1, 0];
            put_varint(&mut body, samples.len() as u64);
            match codec {
                LANES => put_block(&mut body, &samples).unwrap(),
                PCO => put_columns(&mut body, &samples, Packing::Pco).unwrap(),
                _ => put_columns(&mut body, &samples, Packing::Varint).unwrap(),
            }
            let spot = at.index(body.len());
            body[spot] = with;
            let body = if codec == ZSTD { zstd::bulk::compress(&body, 3).unwrap() } else { body };
            let value = bytes::seal([&[codec], body.as_slice()].concat());
            let decoded = decode(1, &value).unwrap_or_default();
            prop_assert!(decoded.iter().map(|run| run.samples.len()).sum::<usize>() <= MAX_BLOCK_SAMPLES);
        }
    }

    #[test]
    fn each_flipped_bit_is_found() {
        let samples: Vec<Sample> =
            (0..40).map(|n| Sample { need: Bytes(n * n * 4096), ..Sample::default() }).collect();
        let run = Run { first_sequence: 3, lost: 2, samples };
        for effort in [Effort::Fast, Effort::Smallest] {
            let chunk = encode_all(vec![run.clone()], effort).unwrap().remove(0);
            for bit in 0..chunk.bytes.len() * 8 {
                let mut value = chunk.bytes.clone();
                value[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(chunk.start, &value).is_err(), "bit {bit} of {effort:?}");
            }
        }
    }

    #[test]
    fn counts_that_no_chunk_can_have_are_refused_before_anything_is_made_of_them() {
        let refused = |codec: u8, head: &[u8], count: u64| {
            let mut body = head.to_vec();
            put_varint(&mut body, count);
            let value = bytes::seal([&[codec], body.as_slice(), &[0; 64]].concat());
            decode(1, &value).unwrap_err().0.contains("are possible")
        };
        for (codec, most) in [(VARINT, 901), (PCO, 901), (LANES, 4097)] {
            // of runs, and of samples in the first one
            assert!([most + 1, 1 << 60].iter().all(|count| refused(codec, &[], *count)), "codec {codec}");
            assert!([most, 1 << 60].iter().all(|count| refused(codec, &[1, 0], *count)), "codec {codec}");
        }
    }

    #[test]
    fn a_frame_that_unpacks_to_gigabytes_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
        let value = bytes::seal([&[ZSTD], bomb.as_slice()].concat());
        assert!(decode(1, &value).unwrap_err().0.contains("zstd"));
    }

    #[test]
    fn a_long_even_series_fills_its_blocks() {
        let sample =
            |n: u64| Sample { elapsed: Millis(n * 1000), need: Bytes(n % 7 * 4096), ..Sample::default() };
        let run = Run { first_sequence: 1, lost: 0, samples: (0..10_000).map(sample).collect() };
        let encoded = encode_all(vec![run.clone()], Effort::Smallest).unwrap();
        assert_eq!(encoded.len(), 3, "4,096 samples each at most");
        assert_eq!(total(&encoded), [run]);
    }

    #[test]
    fn a_column_costs_nothing_if_nobody_has_it_or_the_others_tell_it() {
        let size = |sample: &dyn Fn(u64) -> Sample, effort| {
            let run = Run { first_sequence: 1, lost: 0, samples: (1..=900).map(sample).collect() };
            encode_all(vec![run], effort).unwrap().iter().map(|chunk| chunk.bytes.len()).sum::<usize>()
        };
        let plain = |n: u64| Sample {
            elapsed: Millis(n * 1000),
            need: Bytes(n * n % 97 * 4096),
            ..Sample::default()
        };
        let zeros = |n: u64| Sample {
            need_max: Some(plain(n).need),
            memory_stall: Some(Micros(0)),
            refaults: Some(0),
            throttled: Some(Micros(0)),
            starved: Some(Millis(0)),
            ..plain(n)
        };
        // codec, runs, presence; two varints of the clock and a byte for each step; memory, cpu; need; crc
        let without = 1 + (1 + 1 + 2) + 1 + (2 + 2 + 899) + (2 + 2) + (3 + 2) + 2 * 899 + 4;
        assert!(size(&plain, Effort::Fast) <= without, "{} bytes", size(&plain, Effort::Fast));
        for (effort, each) in [(Effort::Fast, 2), (Effort::Smallest, 0)] {
            let (before, after) = (size(&plain, effort), size(&zeros, effort));
            assert!(after <= before + 5 * each + 2, "{after} after {before} bytes, {effort:?}");
        }
        let rising = |n: u64| Bytes((n * n % 97 + n / 3) * 4096);
        let same =
            |n: u64| Sample { memory: rising(n), need: rising(n), need_max: Some(rising(n)), ..zeros(n) };
        let marked = |n: u64| Sample { memory_peak: (1..=n).map(rising).max(), ..same(n) };
        let alone = |n: u64| Sample { need: rising(n), memory: rising(n), need_max: None, ..zeros(n) };
        let [alone, same, marked] =
            [size(&alone, Effort::Smallest), size(&same, Effort::Smallest), size(&marked, Effort::Smallest)];
        assert!(same <= alone + 1, "a highest need that is the need: {same} after {alone}");
        assert!(marked <= same + 1, "a high-water mark of the memory: {marked} after {same}");
    }

    #[test]
    fn numbers_that_run_over_are_damage() {
        let run = Run { first_sequence: 5, lost: 4, samples: vec![Sample::default()] };
        let chunk = encode_all(vec![run], Effort::Fast).unwrap().remove(0);
        assert!(decode(u64::MAX - 3, &chunk.bytes).is_err());
    }
}
