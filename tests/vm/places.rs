//! Whatever the place allows, the build runs and is measured in the best way that is left.

use crate::record::{record, record_and_summary};

const MIB: u64 = 1 << 20;

/// A build that held 40 MiB, measured like this, with this memory limit; the agent and its witness may be measured with it.
fn assert_measured(name: &str, source: &str, limit_mib: Option<u64>) {
    let Some((record, summary)) = record_and_summary(name) else { return };
    assert_eq!((record.number("exit"), &summary["source"]), (0, &source.into()), "{summary}");
    let limit = summary["resources"]["memory_limit_bytes"].as_u64();
    assert_eq!(limit, limit_mib.map(|mib| mib * MIB), "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((40 * MIB..48 * MIB).contains(&need), "{summary}");
    assert_eq!(summary["outcome"], "succeeded", "{summary}");
}

#[test]
fn a_cgroup_name_with_spaces_is_found() {
    assert_measured("name_with_spaces", "cgroup_v2", Some(128));
}

#[test]
fn a_delegated_cgroup_is_shared_and_left_clean() {
    assert_measured("delegated", "cgroup_v2", Some(128));
    let Some(record) = record("delegated") else { return };
    assert_eq!(record.number("left"), 0, "{record:?}");
}

#[test]
fn without_any_right_the_group_is_still_read() {
    assert_measured("foreign", "cgroup_v2", Some(128));
}

#[test]
fn read_only_cgroups_are_enough_to_measure() {
    assert_measured("read_only", "cgroup_v2", Some(128));
}

#[test]
fn without_cgroups_processes_are_measured_and_kills_unknown() {
    assert_measured("no_cgroups", "process_tree", None);
    let Some((_record, summary)) = record_and_summary("no_cgroups") else { return };
    assert!(summary["oom_kill"].is_null() && summary["reclaim_failures"].is_null(), "{summary}");
}

#[test]
fn a_removed_cgroup_ends_sampling_not_the_build() {
    let Some((record, summary)) = record_and_summary("group_removed") else { return };
    assert_eq!((record.number("exit"), &summary["exit_code"]), (4, &4.into()), "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((40 * MIB..44 * MIB).contains(&need), "what was seen stays: {summary}");
    let last = record.series().last().unwrap()["elapsed_ms"].as_u64().unwrap();
    assert!(last + 300 < summary["wall_ms"].as_u64().unwrap(), "nothing is made up: {last} in {summary}");
}
