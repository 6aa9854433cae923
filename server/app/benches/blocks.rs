//! Bytes of a sealed sample, on series of real builds, beside two plain ways to pack the same numbers; and how fast it goes.
//!
//! Limits for (time, memory, CPU) at 1 Hz: 4 bytes for builds of 15 minutes and more, 5.5 for builds of about a minute.
//! Blocks are made as the server makes them: fragments of ten samples, compacted at 900, the rest at the end.
//!
//! `cargo bench -p plimsoll-server --bench blocks`

#[path = "parts/series.rs"]
mod series;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use plimsoll_core::domain::{AttemptId, Bytes, CpuMicros, Millis, Sample};
use plimsoll_store::{self as store, Batch, KeyKind, PageLimit, Store};
use series::{Build, builds};

/// Samples of a fragment, and loose samples of an open attempt before they are sealed.
const FRAGMENT: usize = 10;
const COMPACT_AFTER: usize = 900;
/// Bytes a sample of (time, memory, CPU).
const LIMIT_LONG: f64 = 4.0;
const LIMIT_MINUTE: f64 = 5.5;
/// How often each build is packed and read for its speed.
const ROUNDS: u32 = 5;

/// A set of builds, and what a sample of theirs may take.
struct Group {
    name: &'static str,
    takes: fn(Millis) -> bool,
    limit: Option<f64>,
}

const GROUPS: [Group; 3] = [
    Group { name: "15 minutes and more", takes: |wall| wall.0 >= 900_000, limit: Some(LIMIT_LONG) },
    Group {
        name: "about a minute",
        takes: |wall| (30_000..120_000).contains(&wall.0),
        limit: Some(LIMIT_MINUTE),
    },
    Group { name: "all", takes: |_| true, limit: None },
];

/// One column of a sample: its name, its number, and how to make it cost nothing (memory is stored as what it is above the need).
struct Column {
    name: &'static str,
    get: fn(&Sample) -> u64,
    drop: fn(&mut Sample),
}

const COLUMNS: [Column; 6] = [
    Column { name: "time", get: |s| s.elapsed.0, drop: |s| s.elapsed = Millis(0) },
    Column { name: "memory", get: |s| s.memory.0, drop: |s| s.memory = s.need },
    Column { name: "CPU", get: |s| s.cpu.0, drop: |s| s.cpu = CpuMicros(0) },
    Column { name: "need", get: |s| s.need.0, drop: |s| s.need = Bytes(0) },
    Column { name: "need_max", get: |s| s.need_max.map_or(0, |b| b.0), drop: |s| s.need_max = None },
    Column { name: "memory_peak", get: |s| s.memory_peak.map_or(0, |b| b.0), drop: |s| s.memory_peak = None },
];
/// The first three.
const ASKED: usize = 3;

/// The sealed blocks of one attempt, and the time it took to make them.
async fn sealed(samples: &[Sample]) -> Result<(Store, AttemptId, usize, Duration)> {
    let (store, id) = (Store::memory(), AttemptId::parse("build").map_err(anyhow::Error::msg)?);
    let mut spent = Duration::ZERO;
    let mut first = 1;
    for part in samples.chunks(COMPACT_AFTER) {
        for samples in part.chunks(FRAGMENT) {
            let mut batch = Batch::default();
            store::append_fragment(&mut batch, &id, first, 0, samples)?;
            store.commit(batch).await?;
            first += samples.len() as u64;
        }
        let began = Instant::now();
        let compaction = store::compact_samples(&store, &id).await?;
        spent += began.elapsed();
        store.commit(compaction.batch).await?;
    }
    let blocks = store.scan(&KeyKind::Block.prefix_of(&id), None, PageLimit::PAGE).await?;
    let bytes = blocks.entries.iter().map(|entry| entry.value.value.len()).sum();
    Ok((store, id, bytes, spent))
}

/// What all blocks of these builds take, once `shape` left out what is not asked for.
async fn bytes(builds: &[&Build], shape: impl Fn(&mut Sample)) -> Result<usize> {
    let mut sum = 0;
    for build in builds {
        let mut samples = build.samples.clone();
        samples.iter_mut().for_each(&shape);
        sum += sealed(&samples).await?.2;
    }
    Ok(sum)
}

/// Without what is not (time, memory, CPU).
fn only_asked(sample: &mut Sample) {
    let Sample { elapsed, memory, cpu, .. } = *sample;
    *sample = Sample { elapsed, memory, cpu, ..Sample::default() };
}

/// Differences of each column as varints, the whole block through zstd 3.
fn varint_zstd(samples: &[Sample], columns: &[Column]) -> Result<usize> {
    let mut out = Vec::new();
    for column in columns {
        let mut before = 0_u64;
        for sample in samples {
            let step = (column.get)(sample).wrapping_sub(before).cast_signed();
            let mut rest = ((step << 1) ^ (step >> 63)).cast_unsigned();
            while rest >= 0x80 {
                out.push(0x80 | u8::try_from(rest & 0x7f)?);
                rest >>= 7;
            }
            out.push(u8::try_from(rest)?);
            before = (column.get)(sample);
        }
    }
    Ok(zstd::bulk::compress(&out, 3)?.len())
}

/// Each column as a pco file.
fn pco_alone(samples: &[Sample], columns: &[Column]) -> Result<usize> {
    let mut sum = 0;
    for column in columns {
        let numbers: Vec<u64> = samples.iter().map(column.get).collect();
        sum += pco::standalone::simple_compress(&numbers, &pco::ChunkConfig::default())?.len();
    }
    Ok(sum)
}

fn plain(
    builds: &[&Build],
    columns: &[Column],
    pack: fn(&[Sample], &[Column]) -> Result<usize>,
) -> Result<usize> {
    builds
        .iter()
        .flat_map(|build| build.samples.chunks(COMPACT_AFTER))
        .map(|samples| pack(samples, columns))
        .sum()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn per(bytes: usize, samples: usize) -> f64 {
    bytes as f64 / samples as f64
}

/// The lines of one group; false if it is above its limit.
async fn report(group: &Group, builds: &[Build], out: &mut impl io::Write) -> Result<bool> {
    let wall = |build: &Build| build.samples.last().map(|last| last.elapsed).unwrap_or_default();
    let builds: Vec<&Build> = builds.iter().filter(|build| (group.takes)(wall(build))).collect();
    let count = builds.iter().map(|build| build.samples.len()).sum();
    let (asked, all) = (bytes(&builds, only_asked).await?, bytes(&builds, |_| {}).await?);
    writeln!(out, "{}: {} builds, {count} samples", group.name, builds.len())?;
    let columns = COLUMNS.get(..ASKED).unwrap_or_default();
    for (name, ours, columns) in [("time, memory, CPU", asked, columns), ("all columns", all, &COLUMNS[..])] {
        let (zstd, pco) = (plain(&builds, columns, varint_zstd)?, plain(&builds, columns, pco_alone)?);
        let [ours, zstd, pco] = [ours, zstd, pco].map(|bytes| per(bytes, count));
        writeln!(out, "  {name:18} {ours:6.2} bytes a sample; varints + zstd {zstd:6.2}, pco {pco:6.2}")?;
    }
    write!(out, "  without it, of all columns:")?;
    for column in &COLUMNS {
        let without = bytes(&builds, |sample| (column.drop)(sample)).await?;
        write!(out, " {} -{:.2}", column.name, per(all, count) - per(without, count))?;
    }
    writeln!(out)?;
    Ok(group.limit.is_none_or(|limit| per(asked, count) <= limit))
}

/// Samples a second on one core, sealed from fragments and read back, all columns, from and to memory.
async fn speed(builds: &[Build], out: &mut impl io::Write) -> Result<()> {
    let (mut samples, mut packing, mut reading) = (0, Duration::ZERO, Duration::ZERO);
    for build in builds.iter().filter(|build| build.samples.len() >= 30) {
        for _ in 0..ROUNDS {
            let (store, id, _, spent) = sealed(&build.samples).await?;
            packing += spent;
            let began = Instant::now();
            let read = store::read_series(&store, &id).await?;
            reading += began.elapsed();
            samples += read.extent.samples;
        }
    }
    let rate = |time: Duration| u128::from(samples) * 1_000_000 / time.as_micros().max(1);
    writeln!(out, "speed: {} samples/s sealed, {} samples/s read", rate(packing), rate(reading))?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let builds = builds()?;
    let mut out = io::stdout().lock();
    let mut kept = true;
    for group in &GROUPS {
        kept &= report(group, &builds, &mut out).await?;
    }
    speed(&builds, &mut out).await?;
    writeln!(
        out,
        "limits of (time, memory, CPU): {LIMIT_LONG} and {LIMIT_MINUTE}: {}",
        if kept { "kept" } else { "NOT KEPT" }
    )?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
