//! What rescue does at the limits of cgroup v2.

use crate::record::record;

const MIB: u64 = 1 << 20;

#[test]
fn a_crowded_build_finishes_by_pausing() {
    let Some(without) = record("crowded") else { return };
    assert_eq!((without.number("exit"), &without.summary()["cause"]), (9, &"oom".into()), "{without:?}");
    let paused = record("crowded_paused").unwrap();
    let summary = paused.summary();
    assert_eq!((paused.number("exit"), &summary["oom_kill"]), (0, &0.into()), "{summary}");
    let rescue = &summary["rescue"];
    assert!(rescue["pauses"].as_u64().unwrap() > 0, "{summary}");
    assert!(rescue["together_peak_bytes"].as_u64().unwrap() > 160 * MIB, "more than the limit: {summary}");
}

#[test]
fn a_build_that_hangs_is_ended_as_starved() {
    let Some(record) = record("hangs") else { return };
    let summary = record.summary();
    assert_eq!(record.number("exit"), 143, "it got SIGTERM: {summary}");
    assert_eq!(summary["cause"], "starved", "{summary}");
    assert!(summary["rescue"]["ended_ms"].as_u64().is_some(), "{summary}");
    assert_eq!(summary["oom_kill"], 0, "{summary}");
}
