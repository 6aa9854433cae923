//! Builds that the agent did not start are found in each of the ways, measured through their cgroup, and left at their end.

use serde_json::Value;

use crate::record::record_and_summary;

const MIB: u64 = 1 << 20;

/// A build of 60 MiB under a limit of 128 MiB that was followed to its end; the first line has these words, the last one those.
fn followed(name: &str, began: &str, ended: &str) -> Option<Value> {
    let (record, summary) = record_and_summary(name)?;
    assert_eq!((record.number("exit"), &summary["source"]), (0, &"cgroup_v2".into()), "{summary}");
    assert!(record.fact("began").contains(began), "{record:?}");
    // Linux says the exit status of a process from 6.15 on
    let known = record.fact("line").contains("ended with exit code 0");
    let unknown = format!("ended ({ended}), exit status not known");
    assert!(known || record.fact("line").contains(&unknown), "{record:?}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], 128 * MIB, "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((60 * MIB..63 * MIB).contains(&need), "{summary}");
    let exit = if known { 0.into() } else { Value::Null };
    assert_eq!((&summary["exit_code"], &summary["oom_kill"]), (&exit, &0.into()), "{summary}");
    Some(summary)
}

#[test]
fn a_process_is_followed_through_its_cgroup() {
    followed("attach_pid", "(load) through its cgroup /sys/fs/cgroup/box", "its process ended");
}

#[test]
fn a_group_is_followed_until_it_is_empty() {
    followed("attach_cgroup", "the cgroup /sys/fs/cgroup/box", "its cgroup is empty");
}

#[test]
fn pods_are_found_by_both_name_formats() {
    followed("attach_pod_systemd", "kubepods-burstable-pod5f0e1d1c_1111", "its process ended");
    followed("attach_pod_cgroupfs", "kubepods/burstable/pod6f0e1d1c-1111", "its process ended");
}

#[test]
fn a_sidecar_reads_another_containers_cgroup() {
    followed("attach_sidecar", "/root/sys/fs/cgroup", "its process ended");
}

#[test]
fn a_kill_in_an_attached_build_has_origin() {
    let Some((_record, summary)) = record_and_summary("attach_killed") else { return };
    assert_eq!((&summary["oom_kill"], &summary["oom_origin"]), (&1.into(), &"own_limit".into()), "{summary}");
    assert_eq!((&summary["cause"], &summary["censored"]), (&"oom".into(), &true.into()), "{summary}");
}
