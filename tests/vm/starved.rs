//! A build that has too little and is not killed: what the kernel shows of it is seen.

use serde_json::Value;

use crate::record::{Record, record_and_summary};

const MIB: u64 = 1 << 20;

/// The agent's count is the kernel's, of which this many percent at least were before the end of the build.
fn assert_counted(record: &Record, count: &str, fact: &str, percent: u64) {
    let (counted, shown) = (record.summary()[count].as_u64().unwrap(), record.number(fact));
    assert!((shown * percent / 100..=shown).contains(&counted), "{count}: {counted} of {shown}");
    assert!(counted > 0, "{record:?}");
}

/// Whether the kernel counted two rounds of a second in a row of which a tenth was lost. A slow disk of this machine stretches the
/// time between two losses, so that is not certain.
fn makes_no_progress(series: &[Value]) -> bool {
    let number = |sample: &Value, name: &str| sample[name].as_u64().unwrap();
    let (mut from, mut before) = ((0, 0), false);
    series.iter().any(|sample| {
        let now = (number(sample, "elapsed_ms"), number(sample, "memory_stall_usec"));
        let length = now.0 - from.0;
        if length < 900 {
            return false;
        }
        let lost = (now.1 - from.1) >= length * 100;
        from = now;
        std::mem::replace(&mut before, lost) && lost
    })
}

#[test]
fn rereading_at_a_tight_limit_counts_reclaim_failures() {
    let Some((record, summary)) = record_and_summary("starved") else { return };
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (0, &0.into()), "{summary}");
    assert!(record.number("refaults") > 10_000, "the kernel itself saw it: {record:?}");
    assert_counted(record, "refaults", "refaults", 90);
    assert_counted(record, "memory_stall_usec", "pressure", 90);
    let starved = summary["starved_ms"].as_u64().unwrap();
    let series = record.series();
    assert_eq!(starved >= 1800, makes_no_progress(&series), "{starved} ms of {summary}");
    assert_eq!(summary["memory_peak_bytes"], 64 * MIB, "it stood at its limit: {summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((36 * MIB..44 * MIB).contains(&need), "and needed less: {summary}");
    let failures = summary["reclaim_failures"].as_u64().unwrap();
    assert!(failures > 1000, "{summary}");
    let counts: Vec<u64> = series.iter().map(|sample| sample["reclaim_failures"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    let half = counts[counts.len() / 2];
    assert!((1..failures).contains(&half), "they come all the time, not at once: {counts:?}");
}

#[test]
fn a_limit_raised_during_the_build_counts() {
    let Some((_record, summary)) = record_and_summary("raised") else { return };
    assert_eq!(summary["memory_limit_at_start_bytes"], 64 * MIB, "{summary}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], 128 * MIB, "{summary}");
    assert_eq!((&summary["cause"], &summary["censored"]), (&"oom".into(), &true.into()), "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!(need > 100 * MIB, "it was killed at the new limit: {summary}");
}

#[test]
fn a_throttled_build_uses_its_cpu_quota() {
    let Some((record, summary)) = record_and_summary("throttled") else { return };
    assert_eq!(record.number("exit"), 0, "{summary}");
    assert_eq!(summary["resources"]["cpu_limit_cores"], 0.2, "{summary}");
    assert!(record.number("throttled_usec") > 500_000, "the kernel itself saw it: {record:?}");
    // the agent shares the quota, and what it does after the end is not the build's
    assert_counted(record, "throttled_usec", "throttled_usec", 50);
    let (cpu, wall) = (summary["cpu_usec"].as_u64().unwrap(), summary["wall_ms"].as_u64().unwrap() * 1000);
    // the quota of one period may be used before the first throttling
    assert!(cpu <= wall / 5 + 30_000, "more than a fifth of the time: {summary}");
    assert!(cpu >= wall / 10, "{summary}");
}
