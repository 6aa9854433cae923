//! Builds that fork, leave daemons, or do not want to end, are measured and left alone.

use crate::record::record_and_summary;

const MIB: u64 = 1 << 20;

#[test]
fn a_thousand_forks_count_only_cpu_time() {
    let Some((record, summary)) = record_and_summary("forks") else { return };
    assert_eq!((record.number("exit"), &summary["source"]), (0, &"cgroup_v2".into()), "{summary}");
    let (cpu, wall) = (summary["cpu_usec"].as_u64().unwrap(), summary["wall_ms"].as_u64().unwrap() * 1000);
    assert!((wall / 2..=wall).contains(&cpu), "children of 1 ms count on the one CPU: {summary}");
    assert!(summary["need_peak_bytes"].as_u64().unwrap() < 8 * MIB, "{summary}");
}

#[test]
fn a_build_ends_without_waiting_for_its_daemon() {
    let Some((record, summary)) = record_and_summary("daemon") else { return };
    assert_eq!((record.number("exit"), record.number("alive")), (6, 1), "{summary}");
    assert!(summary["wall_ms"].as_u64().unwrap() < 20_000, "the daemon is not waited for: {summary}");
    assert!(summary["need_peak_bytes"].as_u64().unwrap() > 30 * MIB, "its memory is the build's: {summary}");
}

#[test]
fn a_build_ignoring_sigterm_is_measured_to_completion() {
    let Some((record, summary)) = record_and_summary("stubborn") else { return };
    assert_eq!((record.number("exit"), &summary["exit_code"]), (5, &5.into()), "{summary}");
    assert!(summary["wall_ms"].as_u64().unwrap() >= 2000, "{summary}");
}
