//! Every sample comes back, bytes that are no chunk are damage, and what is the same costs nothing.

use plimsoll_core::domain::{Bytes, CpuMicros, Micros, Millis};
use plimsoll_proto::counters::PageCounters;
use proptest::{
    array::{uniform4, uniform8},
    collection::vec,
    option,
    prelude::*,
};

use super::*;
use crate::series::push_run;

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
    let [peak, oom_kill, reclaim_failures, need_max, memory_stall, pages, throttled, starved] = optional;
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
        pages: PageCounters::all(pages),
        throttled: throttled.map(Micros),
        starved: starved.map(Millis),
    }
}

/// Neighbouring runs, all but the last with samples.
fn runs() -> impl Strategy<Value = Vec<SampleRun>> {
    (vec((0..3_u64, samples(300)), 0..5), 0..3_u64).prop_map(|(parts, lost_at_end)| {
        let full = parts.into_iter().filter(|(_, samples)| !samples.is_empty());
        let numbered = full.chain([(lost_at_end, Vec::new())]).scan(1, |next, (lost, samples)| {
            let run = SampleRun { first_sequence: *next + lost, lost, samples };
            *next = run.end();
            Some(run)
        });
        numbered.collect()
    })
}

fn joined(runs: impl IntoIterator<Item = SampleRun>) -> Vec<SampleRun> {
    let mut joined = Vec::new();
    runs.into_iter().for_each(|run| push_run(&mut joined, run));
    joined
}

fn total(encoded: &[EncodedChunk]) -> Vec<SampleRun> {
    joined(encoded.iter().flat_map(|chunk| decode(chunk.start, &chunk.bytes).unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_sample_and_every_gap_comes_back(runs in runs(), smallest in any::<bool>()) {
        let effort = if smallest { CompressionEffort::Smallest } else { CompressionEffort::Fast };
        let encoded = encode_all(runs.clone(), effort).unwrap();
        prop_assert!(encoded.iter().all(|chunk| chunk.bytes.len() <= MAX_VALUE));
        prop_assert_eq!(total(&encoded), joined(runs));
    }

    #[test]
    fn hostile_bytes_are_damage_and_no_panic(
        codec in 0..6_u8, body in vec(any::<u8>(), 0..300), start in any::<u64>(),
    ) {
        let value = bytes::with_checksum([&[codec], body.as_slice()].concat());
        let decoded: usize = decode(start, &value).unwrap_or_default().iter().map(|run| run.samples.len()).sum();
        prop_assert!(decoded <= MAX_BLOCK_SAMPLES);
        prop_assert!(decode(start, &body).is_err(), "without a checksum nothing is believed");
    }

    #[test]
    fn a_forged_block_is_damage_and_no_panic(
        samples in samples(100), at in any::<prop::sample::Index>(), with in any::<u8>(), lanes in any::<bool>(),
    ) {
        let mut body = vec![1, 0];
        put_varint(&mut body, samples.len() as u64);
        if lanes {
            put_block(&mut body, &samples).unwrap();
        } else {
            put_columns(&mut body, &samples);
        }
        let spot = at.index(body.len());
        body[spot] = with;
        let value = bytes::with_checksum([&[if lanes { LANES_CODEC } else { COLUMNS_CODEC }], body.as_slice()].concat());
        let decoded = decode(1, &value).unwrap_or_default();
        prop_assert!(decoded.iter().map(|run| run.samples.len()).sum::<usize>() <= MAX_BLOCK_SAMPLES);
    }
}

#[test]
fn each_flipped_bit_is_found() {
    let samples: Vec<Sample> =
        (0..40).map(|n| Sample { need: Bytes(n * n * 4096), ..Sample::default() }).collect();
    let run = SampleRun { first_sequence: 3, lost: 2, samples };
    for effort in [CompressionEffort::Fast, CompressionEffort::Smallest] {
        let chunk = encode_all(vec![run.clone()], effort).unwrap().remove(0);
        for bit in 0..chunk.bytes.len() * 8 {
            let mut value = chunk.bytes.clone();
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(chunk.start, &value).is_err(), "bit {bit} of {effort:?}");
        }
    }
}

#[test]
fn impossible_counts_are_refused_before_allocation() {
    let refused = |codec: u8, head: &[u8], count: u64| {
        let mut body = head.to_vec();
        put_varint(&mut body, count);
        let value = bytes::with_checksum([&[codec], body.as_slice(), &[0; 64]].concat());
        decode(1, &value).unwrap_err().0.contains("are possible")
    };
    for (codec, most) in [(COLUMNS_CODEC, 901), (LANES_CODEC, 4097)] {
        // of runs, and of samples in the first one
        assert!([most + 1, 1 << 60].iter().all(|count| refused(codec, &[], *count)), "codec {codec}");
        assert!([most, 1 << 60].iter().all(|count| refused(codec, &[1, 0], *count)), "codec {codec}");
    }
}

#[test]
fn a_long_even_series_fills_its_blocks() {
    let sample =
        |n: u64| Sample { elapsed: Millis(n * 1000), need: Bytes(n % 7 * 4096), ..Sample::default() };
    let run = SampleRun { first_sequence: 1, lost: 0, samples: (0..10_000).map(sample).collect() };
    let encoded = encode_all(vec![run.clone()], CompressionEffort::Smallest).unwrap();
    assert_eq!(encoded.len(), 3, "4,096 samples each at most");
    assert_eq!(total(&encoded), [run]);
}

#[test]
fn empty_or_derivable_columns_cost_nothing() {
    let size = |sample: &dyn Fn(u64) -> Sample, effort| {
        let run = SampleRun { first_sequence: 1, lost: 0, samples: (1..=900).map(sample).collect() };
        encode_all(vec![run], effort).unwrap().iter().map(|chunk| chunk.bytes.len()).sum::<usize>()
    };
    let plain =
        |n: u64| Sample { elapsed: Millis(n * 1000), need: Bytes(n * n % 97 * 4096), ..Sample::default() };
    let zeros = |n: u64| Sample {
        need_max: Some(plain(n).need),
        memory_stall: Some(Micros(0)),
        pages: PageCounters::all(Some(0)),
        throttled: Some(Micros(0)),
        starved: Some(Millis(0)),
        ..plain(n)
    };
    // codec, runs, presence; two varints of the clock and a byte for each step; memory, cpu; need; crc
    let without = 1 + (1 + 1 + 2) + 1 + (2 + 2 + 899) + (2 + 2) + (3 + 2) + 2 * 899 + 4;
    let with = size(&plain, CompressionEffort::Fast);
    assert!(with <= without, "{with} bytes");
    for (effort, each) in [(CompressionEffort::Fast, 2), (CompressionEffort::Smallest, 0)] {
        let (before, after) = (size(&plain, effort), size(&zeros, effort));
        let most = before + (4 + PageCounters::ALL.len()) * each + 2;
        assert!(after <= most, "{after} after {before} bytes, {effort:?}");
    }
    let rising = |n: u64| Bytes((n * n % 97 + n / 3) * 4096);
    let same = |n: u64| Sample { memory: rising(n), need: rising(n), need_max: Some(rising(n)), ..zeros(n) };
    let marked = |n: u64| Sample { memory_peak: (1..=n).map(rising).max(), ..same(n) };
    let alone = |n: u64| Sample { need: rising(n), memory: rising(n), need_max: None, ..zeros(n) };
    let [alone, same, marked] = [
        size(&alone, CompressionEffort::Smallest),
        size(&same, CompressionEffort::Smallest),
        size(&marked, CompressionEffort::Smallest),
    ];
    assert!(same <= alone + 1, "a highest need that is the need: {same} after {alone}");
    assert!(marked <= same + 1, "a high-water mark of the memory: {marked} after {same}");
}

#[test]
fn numbers_that_run_over_are_damage() {
    let run = SampleRun { first_sequence: 5, lost: 4, samples: vec![Sample::default()] };
    let chunk = encode_all(vec![run], CompressionEffort::Fast).unwrap().remove(0);
    assert!(decode(u64::MAX - 3, &chunk.bytes).is_err());
}
