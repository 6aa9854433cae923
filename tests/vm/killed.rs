//! Kills for memory are counted wherever in the build they fall, whosever limit it was; other kills are not taken for them.

use serde_json::Value;

use crate::record::{record, record_and_summary};

const MIB: u64 = 1 << 20;

/// A build that ended with this status, of which the kernel killed so many processes for memory.
fn killed(name: &str, exit: u64, kills: u64, origin: &str) -> Option<Value> {
    let (record, summary) = record_and_summary(name)?;
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (exit, &kills.into()), "{summary}");
    assert_eq!((&summary["cause"], &summary["outcome"]), (&"oom".into(), &"failed".into()), "{summary}");
    assert_eq!(summary["oom_origin"], origin, "{summary}");
    assert_eq!(summary["censored"], true, "a kill proves only that it needs more: {summary}");
    assert!(record.fact("line").contains("the kernel killed"), "{record:?}");
    Some(summary)
}

/// A build that failed with this status, and not for memory.
fn failed(name: &str, exit: u64) {
    let Some((record, summary)) = record_and_summary(name) else { return };
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (exit, &0.into()), "{summary}");
    assert_eq!((&summary["outcome"], &summary["censored"]), (&"failed".into(), &false.into()), "{summary}");
    assert!(!["oom", "starved"].contains(&summary["cause"].as_str().unwrap()), "{summary}");
}

#[test]
fn a_killed_child_behind_exit_2_is_found() {
    let Some(summary) = killed("killed_child", 2, 1, "own_limit") else { return };
    assert_eq!(summary["resources"]["memory_limit_bytes"], 64 * MIB, "{summary}");
    assert_eq!(summary["memory_peak_bytes"], 64 * MIB, "{summary}");
    assert!(summary["need_peak_bytes"].as_u64().unwrap() >= 40 * MIB, "{summary}");
}

#[test]
fn every_kill_of_a_continuing_build_is_counted() {
    killed("keeps_going", 2, 2, "own_limit");
}

#[test]
fn a_killed_grandchild_is_found_despite_translated_codes() {
    killed("killed_grandchild", 7, 1, "own_limit");
}

#[test]
fn a_whole_group_kill_ends_by_signal() {
    let Some(summary) = killed("whole_group", 137, 2, "own_limit") else { return };
    assert_eq!(summary["exit_signal"], 9, "{summary}");
    assert_eq!(summary["oom_group_kill"], 1, "{summary}");
}

#[test]
fn a_kill_in_a_nested_group_is_counted() {
    let Some(summary) = killed("nested_group", 3, 1, "own_limit") else { return };
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!(need < 40 * MIB, "the limit was the inner one's: {summary}");
    assert_eq!(record("nested_group").unwrap().number("left"), 0, "its groups go with it");
}

#[test]
fn a_build_killed_at_once_needed_its_limit() {
    let Some(summary) = killed("killed_at_once", 137, 1, "own_limit") else { return };
    assert!(summary["need_peak_bytes"].as_u64().unwrap() >= 60 * MIB, "{summary}");
}

#[test]
fn the_agent_survives_a_whole_group_kill() {
    let Some(summary) = killed("agent_spared", 137, 2, "own_limit") else { return };
    assert_eq!((&summary["exit_signal"], &summary["oom_group_kill"]), (&9.into(), &1.into()), "{summary}");
}

#[test]
fn an_ancestor_limit_and_its_kill_are_recorded() {
    let Some(summary) = killed("limit_above", 2, 1, "limit_above") else { return };
    assert_eq!(summary["resources"]["memory_limit_bytes"], 64 * MIB, "{summary}");
}

#[test]
fn a_machine_wide_oom_kill_is_counted() {
    let Some((record, summary)) = record_and_summary("whole_machine") else { return };
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (2, &1.into()), "{summary}");
    // the machine's fault: the same again elsewhere, and no word on what the build needs
    assert_eq!((&summary["cause"], &summary["oom_origin"]), (&"infra".into(), &"host".into()), "{summary}");
    assert_eq!(summary["censored"], false, "{summary}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], Value::Null, "{summary}");
    assert_eq!(summary["reclaim_failures"], 0, "no limit was hit: {summary}");
}

#[test]
fn a_killed_agents_samples_reach_the_next_one() {
    let Some((record, summary)) = record_and_summary("killed_with_agent") else { return };
    assert_eq!((record.number("exit"), &summary["outcome"]), (137, &"lost".into()), "{summary}");
    assert!(summary["samples"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], 64 * MIB, "{summary}");
}

#[test]
fn a_manual_kill_is_no_oom_kill() {
    failed("killed_by_hand", 137);
}

#[test]
fn a_timeout_kill_is_no_oom_kill() {
    failed("timed_out", 137);
}

#[test]
fn a_failure_below_the_limit_is_no_oom() {
    failed("compile_error", 1);
}
