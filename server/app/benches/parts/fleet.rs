//! A fleet as Spack's CI is one, for benches: its keys, its attempts, a store full of them, and what it costs to keep them.

use std::{error::Error, fs, path::Path};

use plimsoll_core::domain::{
    AttemptId, Bytes, Cause, Cores, CpuMicros, Exit, Hints, Key, MeasurementSource, Millis, OpeningRecord,
    Outcome, Resources, Summary,
};
use plimsoll_proto::limits;
use plimsoll_store::{self as store, BATCH_OPERATIONS, Batch, Store, StoreSettings};

use super::mix::mix;

pub(crate) type Any<T> = Result<T, Box<dyn Error>>;

/// Start of the first attempt, milliseconds since 1970; each starts a second after the one before.
const START_UNIX_MS: u64 = 1_700_000_000_000;
const KEYS: u64 = 20_000;

/// One of so many keys as Spack's CI has them.
fn key(n: u64) -> Key {
    let random = mix(n);
    Key {
        project: "spack/spack-packages".to_owned(),
        stack: format!("e4s-{}", random % 20),
        package: format!("package-{}", n % 2000),
        version: format!("1.{}", n / 2000),
        variants: format!("+shared~static build_type=Release generator=ninja cxxstd={}", random >> 24 & 3),
        compiler: "gcc".to_owned(),
        compiler_version: format!("{}.2.0", 11 + (random >> 28 & 1)),
        arch: format!("linux-ubuntu22.04-x86_64_v{}", 3 + (random >> 30 & 1)),
        build_system: (if random >> 32 & 1 == 0 { "cmake" } else { "python" }).to_owned(),
        labels: [("stage".to_owned(), format!("stage-{}", n % 20))].into(),
        ..Key::default()
    }
}

fn summary(n: u64) -> Any<Summary> {
    let random = mix(n ^ 0xabcd);
    let need = Bytes((100 << 20) + random % (4000 << 20));
    let key = Key {
        git_ref: format!("pr{}_branch", n / 500),
        owner: format!("team-{}", random >> 44 & 31),
        hints: Hints { build_jobs: Some(8), input_bytes: Some(need.0 >> 8) },
        ..key(mix(n ^ 0x1234) % KEYS)
    };
    let failed = random.is_multiple_of(20);
    Ok(Summary {
        source: MeasurementSource::CgroupV2,
        resources: Resources {
            memory_request: Some(Bytes(4 << 30)),
            memory_limit: Some(Bytes(8 << 30)),
            cpu_request: Some(Cores(4.0)),
            cpu_limit: None,
        },
        started_unix_ms: START_UNIX_MS + n * 1000,
        opening: OpeningRecord { pool: format!("pool-{}", random >> 40 & 3), ..OpeningRecord::default() },
        wall: Millis(60_000 + random % 600_000),
        cpu: CpuMicros(random % 4_000_000_000),
        cpu_peak: Cores(Millis(random % 8000).as_f64() / 1000.0),
        samples: 60 + random % 600,
        need_peak: need,
        need_mean: Bytes(need.0 / 2),
        memory_peak: Bytes(need.0 + (1 << 30)),
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        memory_stall: None,
        outcome: if failed { Outcome::Failed } else { Outcome::Succeeded },
        cause: failed.then_some(Cause::Deterministic),
        exit: Some(Exit::Code(i32::from(failed))),
        ..Summary::recorded(AttemptId::parse(&format!("gitlab.spack.io:{}", 10_000_000 + n))?, key)
    })
}

fn settings(dir: &Path) -> StoreSettings {
    StoreSettings { dir: dir.to_owned(), cache_bytes: 64 << 20 }
}

/// The same attempt with names as long as the wire lets them be, all labels, a job and an attempt that it retries.
fn lengthen(summary: Summary, n: u64) -> Any<Summary> {
    let Summary { mut key, .. } = summary;
    let long = |text: &str, bytes: usize| format!("{text:-<bytes$}");
    for text in [&mut key.project, &mut key.stack, &mut key.package, &mut key.version, &mut key.compiler] {
        *text = long(text, limits::KEY_FIELD_BYTES);
    }
    key.variants = long(&key.variants, limits::VARIANTS_BYTES);
    let label = |name: u64| {
        (format!("label-{name}"), long(&(mix(n ^ name) % 10_000).to_string(), limits::LABEL_BYTES))
    };
    key.labels.extend((3..32).map(label));
    key.labels.insert("pipeline".to_owned(), (n / 100).to_string());
    key.labels.insert("job".to_owned(), long(&key.package, limits::LABEL_BYTES));
    let id = |n: u64| AttemptId::parse(&format!("gitlab.example.org:{n:0>100}"));
    Ok(Summary { key, attempt: id(n)?, number: 2, retries: Some(id(n.saturating_sub(1))?), ..summary })
}

/// A store with so many attempts; with long names if asked to.
pub(crate) async fn make(dir: &Path, number: u64, long: bool) -> Any<()> {
    let store = Store::open(&settings(dir))?;
    let mut batch = Batch::default();
    for n in 0..number {
        let plain = summary(n)?;
        store::put(&mut batch, &if long { lengthen(plain, n)? } else { plain })?;
        // half a commit: no record of these has two parts more than that
        if batch.writes.len() >= BATCH_OPERATIONS / 2 {
            store.commit(std::mem::take(&mut batch)).await?;
        }
    }
    store.commit(batch).await?;
    Ok(store.close().await?)
}

/// Processor time of this process. Its fields 14 and 15 (proc(5)) are in ticks, which Linux shows as hundredths of a second.
pub(crate) fn cpu_seconds() -> Any<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, behind_name) = stat.rsplit_once(')').ok_or("no name in the stat")?;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

/// A figure of this process in MB.
pub(crate) fn memory_mb(name: &str) -> Any<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).ok_or("no such line in the status")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number in the status")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}
