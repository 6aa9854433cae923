//! A build that has too little and is not killed: what the kernel shows of it is seen.

use crate::record::record;

const MIB: u64 = 1 << 20;

#[test]
fn a_build_that_reads_its_files_again_and_again_fails_to_reclaim_at_a_tight_limit() {
    let Some(record) = record("starved") else { return };
    let summary = record.summary();
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (0, &0.into()), "{summary}");
    assert!(record.number("refaults") > 10_000, "the kernel itself saw it: {record:?}");
    assert!(record.number("pressure") > 0, "the kernel itself saw it: {record:?}");
    assert_eq!(summary["memory_peak_bytes"], 64 * MIB, "it stood at its limit: {summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((36 * MIB..44 * MIB).contains(&need), "and needed less: {summary}");
    let failures = summary["reclaim_failures"].as_u64().unwrap();
    assert!(failures > 1000, "{summary}");
    let series = record.series();
    let counts: Vec<u64> = series.iter().map(|sample| sample["reclaim_failures"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    let half = counts[counts.len() / 2];
    assert!((1..failures).contains(&half), "they come all the time, not at once: {counts:?}");
}

#[test]
fn a_build_that_is_throttled_gets_the_cpu_time_of_its_quota() {
    let Some(record) = record("throttled") else { return };
    let summary = record.summary();
    assert_eq!(
        (record.number("exit"), &summary["resources"]["cpu_limit_cores"]),
        (0, &0.2.into()),
        "{summary}"
    );
    assert!(record.number("throttled_usec") > 500_000, "the kernel itself saw it: {record:?}");
    let (cpu, wall) = (summary["cpu_usec"].as_u64().unwrap(), summary["wall_ms"].as_u64().unwrap() * 1000);
    // the quota of one period may be used before the first throttling
    assert!(cpu <= wall / 5 + 30_000, "more than a fifth of the time: {summary}");
    assert!(cpu >= wall / 10, "{summary}");
}
