//! The need is what was touched and cannot be given back, however short, in whichever process of the build; files are not.

use crate::record::{record, record_and_summary};

const MIB: u64 = 1 << 20;

/// A need of so many MiB, at most 2 % more.
fn assert_need(name: &str, mib: u64) {
    let Some((record, summary)) = record_and_summary(name) else { return };
    assert_eq!((record.number("exit"), &summary["source"]), (0, &"cgroup_v2".into()), "{summary}");
    let (need, mark) =
        (summary["need_peak_bytes"].as_u64().unwrap(), summary["memory_peak_bytes"].as_u64().unwrap());
    assert!((mib * MIB..=mib * MIB * 102 / 100).contains(&need), "{need} is not {mib} MiB: {summary}");
    assert!((need..=need + 2 * MIB).contains(&mark), "nothing but the need was charged: {summary}");
    assert_eq!((&summary["oom_kill"], &summary["starved_ms"]), (&0.into(), &0.into()), "{summary}");
}

#[test]
fn a_short_peak_is_the_need() {
    assert_need("short_peak", 200);
    let Some(record) = record("short_peak") else { return };
    let series = record.series();
    let row = series.iter().find(|row| row["need_max_bytes"].as_u64().is_some_and(|most| most >= 200 * MIB));
    let row = row.unwrap_or_else(|| panic!("no row says the peak: {series:?}"));
    assert!(row["need_bytes"].as_u64().unwrap() < 150 * MIB, "most of the second it was not there: {row}");
}

#[test]
fn memory_of_a_grandchild_is_the_builds() {
    assert_need("grandchild", 60);
}

#[test]
fn shared_memory_is_needed_like_any_other() {
    assert_need("shared_memory", 60);
}

#[test]
fn the_series_shows_growth_steps() {
    assert_need("steps", 90);
    let Some(record) = record("steps") else { return };
    let needs: Vec<u64> =
        record.series().iter().map(|sample| sample["need_bytes"].as_u64().unwrap() / MIB).collect();
    for step in [30, 60, 90] {
        assert!(needs.contains(&step), "no sample at {step} MiB in {needs:?}");
    }
    assert!(needs.last().is_some_and(|&last| last < 5), "what was freed is not needed: {needs:?}");
}

#[test]
fn log_sections_become_phases_with_their_need() {
    let Some((record, summary)) = record_and_summary("phases") else { return };
    let phases = summary["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!((names, record.number("exit")), (vec!["configure", "build"], 0), "{summary}");
    for (phase, mib) in phases.iter().zip([20, 60]) {
        let need = phase["need_peak_bytes"].as_u64().unwrap();
        assert!((mib * MIB..(mib + 6) * MIB).contains(&need), "{phase}");
        assert!((300..2000).contains(&phase["wall_ms"].as_u64().unwrap()), "{phase}");
    }
    assert_eq!(summary["peak_phase"], "build", "{summary}");
    let page = record.fact("page");
    for words in ["|  memory    needed 6", "most in build", "  configure", "|  samples   delivered"] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
}

#[test]
fn written_files_do_not_count_as_need() {
    let Some((record, summary)) = record_and_summary("files") else { return };
    assert_eq!(record.number("exit"), 0, "{summary}");
    assert_eq!(summary["resources"]["memory_limit_bytes"], 128 * MIB, "{summary}");
    assert_eq!(summary["memory_peak_bytes"], 128 * MIB, "files fill the group: {summary}");
    assert!(summary["need_peak_bytes"].as_u64().unwrap() < 16 * MIB, "{summary}");
    assert!(summary["reclaim_failures"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!((&summary["oom_kill"], &summary["cause"]), (&0.into(), &"unspecified".into()), "{summary}");
    assert_eq!(summary["starved_ms"], 0, "it fills its limit and lacks nothing: {summary}");
}
