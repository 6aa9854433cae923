//! A build that needs more than its limit gets more, where the agent may raise it; at the ceiling it is killed as it would have been.

use crate::record::record;

const MIB: u64 = 1 << 20;

#[test]
fn a_build_gets_more_than_its_limit() {
    let Some(record) = record("rescued") else { return };
    let summary = record.summary();
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (0, &0.into()), "{summary}");
    assert!(record.number("raises") > 0, "{record:?}");
    assert_eq!(summary["memory_limit_at_start_bytes"], 64 * MIB, "{summary}");
    let limit = summary["resources"]["memory_limit_bytes"].as_u64().unwrap();
    assert!((96 * MIB..=128 * MIB).contains(&limit), "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((96 * MIB..98 * MIB).contains(&need), "the need is the true one: {summary}");
    assert_eq!((&summary["starved_ms"], &summary["censored"]), (&0.into(), &false.into()), "{summary}");
}

#[test]
fn a_build_above_the_ceiling_is_killed_there() {
    let Some(record) = record("above_ceiling") else { return };
    let summary = record.summary();
    assert_eq!((record.number("exit"), &summary["oom_kill"]), (2, &1.into()), "{summary}");
    assert_eq!(
        (&summary["cause"], &summary["oom_origin"]),
        (&"oom".into(), &"own_limit".into()),
        "{summary}"
    );
    assert_eq!(summary["resources"]["memory_limit_bytes"], 96 * MIB, "{summary}");
}

#[test]
fn a_refused_raise_is_reported_once() {
    let Some(record) = record("unraisable") else { return };
    let summary = record.summary();
    assert_eq!((record.number("exit"), record.number("problems")), (2, 1), "{record:?}");
    assert_eq!((&summary["oom_kill"], &summary["cause"]), (&1.into(), &"oom".into()), "{summary}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], 64 * MIB, "{summary}");
}
