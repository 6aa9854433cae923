//! Attempts for tests.

#![expect(clippy::unwrap_used, reason = "a fixture that is wrong may end its test")]

use super::{AttemptId, Bytes, Cores, CpuMicros, Exit, Key, MeasurementSource, Millis, Summary};

/// A finished attempt that needed `need_mib`.
pub fn test_summary(id: &str, package: &str, version: &str, need_mib: u64) -> Summary {
    let key = Key { package: package.into(), version: version.into(), ..Key::default() };
    Summary {
        source: MeasurementSource::CgroupV2,
        started_unix_ms: 1_700_000_000_000,
        wall: Millis(60_000),
        cpu: CpuMicros(120_000_000),
        cpu_peak: Cores(4.0),
        samples: 60,
        need_peak: Bytes(need_mib << 20),
        need_mean: Bytes(need_mib << 19),
        memory_peak: Bytes(need_mib << 21),
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        exit: Some(Exit::Code(0)),
        ..Summary::recorded(AttemptId::parse(id).unwrap(), key)
    }
}
