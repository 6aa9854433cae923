//! Stores and things to put into them.

use std::{collections::BTreeMap, path::Path};

use plimsoll_core::domain::{
    Action, Attempt, AttemptId, Bytes, Cause, CpuMicros, Exit, FinalTotals, Micros, Millis, Resources,
    Sample, SampleAccumulator, Summary, Verdict, test_attempt, test_verdict,
};
use plimsoll_proto::counters::PageCounters;
use tempfile::TempDir;

use crate::{Batch, OfflineStore, Store, StoreSettings, VersionedValue};

/// A store of each kind, and the directory that must outlive it. Without PostgreSQL on the machine, none in a database.
pub(crate) fn stores() -> (TempDir, Vec<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let mut stores = vec![open(dir.path()), Store::memory()];
    stores.extend(super::database::new_store());
    (dir, stores)
}

pub(crate) fn settings(dir: &Path) -> StoreSettings {
    StoreSettings { dir: dir.join("data"), cache_bytes: 4 << 20 }
}

/// The store in a directory.
pub(crate) fn open(dir: &Path) -> Store {
    Store::open(&settings(dir)).unwrap()
}

/// Why the store in a directory does not open.
pub(crate) fn refusal(dir: &Path) -> String {
    Store::open(&settings(dir)).unwrap_err().to_string()
}

/// All that a store holds.
pub(crate) type Entries = BTreeMap<Vec<u8>, VersionedValue>;

pub(crate) fn entries(store: &OfflineStore) -> Entries {
    let mut all = Entries::new();
    let each = store.each_entry(|entry| {
        all.insert(entry.key, entry.value);
        Ok(())
    });
    each.unwrap();
    all
}

pub(crate) fn one(key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.put(key.to_vec(), value.to_vec());
    batch
}

pub(crate) fn id(text: &str) -> AttemptId {
    AttemptId::parse(text).unwrap()
}

pub(crate) fn attempt(name: &str) -> Attempt {
    let resources = Resources { memory_limit: Some(Bytes(1 << 30)), ..Resources::default() };
    Attempt { retries: Some(id("before")), resources, ..test_attempt(name) }
}

pub(crate) fn summary(attempt: &Attempt) -> Summary {
    let (progress, totals) = (SampleAccumulator::default(), FinalTotals::default());
    Summary::of(attempt, &progress, &totals, Millis(1234), Some(Exit::Code(0)))
}

pub(crate) fn verdict(name: &str) -> Verdict {
    Verdict {
        action: Action::Bigger,
        cause: Cause::Oom,
        confidence: 0.1 + 0.2,
        attempts_left: 2,
        reason: "the kernel killed it".into(),
        basis: plimsoll_core::domain::VerdictBasis::default(),
        ..test_verdict(name, None)
    }
}

/// The samples with the numbers `from` to `to`, both included; what they hold tells which they are.
pub(crate) fn samples(from: u64, to: u64) -> Vec<Sample> {
    let noise = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sample = |n: u64| Sample {
        elapsed: Millis(n * 1000 + noise(n) % 3),
        memory: Bytes((noise(n) >> 40) * 4096),
        need: Bytes((noise(n + 1) >> 44) * 4096),
        memory_peak: Some(Bytes(1 << 40)),
        cpu: CpuMicros((n * 800 + noise(n) % 800) * 1000),
        oom_kill: Some(0),
        reclaim_failures: (n > 10).then_some(n / 2),
        need_max: n.is_multiple_of(2).then_some(Bytes((noise(n + 1) >> 44) * 4096 + n)),
        memory_stall: Some(Micros(n * 7)),
        pages: PageCounters::default(),
        throttled: Some(Micros(0)),
        starved: (n > 20).then_some(Millis(n)),
    };
    (from..=to).map(sample).collect()
}
