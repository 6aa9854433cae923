//! Groups of need in whole histories.

use crate::{
    domain::{
        Bytes, History, Key, Millis, NeedGroups, Outcome, Prediction, Summary, test_history as history,
        test_summary,
    },
    predict::{self, Settings},
};

/// An attempt an hour after the one before it.
fn built(n: usize, version: &str, need_mib: u64) -> Summary {
    let mut summary = test_summary(&n.to_string(), "zlib", version, need_mib + n as u64 % 7);
    summary.started_unix_ms = 1_700_000_000_000 + 3_600_000 * n as u64;
    summary.wall = Millis(3_600_000);
    summary
}

fn key(version: &str) -> Key {
    test_summary("k", "zlib", version, 0).key
}

fn groups(history: &History, version: &str) -> Option<NeedGroups> {
    let prediction = predict::predict_grouped(history, &key(version), &Settings::default());
    prediction.need_groups.map(|groups| NeedGroups::clone(&groups))
}

/// Three of ten need more; in no order that the time tells.
fn two(n: usize) -> u64 {
    if n * 7 % 10 < 3 { 40_000 } else { 16_000 }
}

#[test]
fn two_groups_are_described_without_changing_sizes() {
    let history = history((0..100).map(|n| built(n, "1", two(n))));
    let found = groups(&history, "1").unwrap();
    for (group, (attempts, mib)) in found.groups.iter().zip([(70, 16_000), (30, 40_000)]) {
        let [least, median, most] = group.need.map(|need| need.0 >> 20);
        assert_eq!(group.attempts, attempts);
        assert!(
            (mib - 1..mib + 8).contains(&least) && least < median && median < most && most < mib + 8,
            "{group:?}"
        );
    }
    assert!((found.groups[1].share - 0.3).abs() < 1e-9);
    assert_eq!(
        (found.told_apart_by.as_ref(), found.unrecorded.as_slice()),
        (None, &["variants", "build_jobs"][..])
    );
    let settings = Settings::default();
    let plain = predict::predict(&history, &key("1"), &settings);
    let grouped = predict::predict_grouped(&history, &key("1"), &settings);
    assert_eq!(Prediction { need_groups: None, ..grouped }, plain);
    assert_eq!(plain.need_groups, None, "what is stored or replayed has none");
}

#[test]
fn single_group_and_unknown_keys_have_no_groups() {
    assert_eq!(
        groups(&history((0..100).map(|n| built(n, "1", 16_000 + 50 * (n as u64 * 37 % 41)))), "1"),
        None
    );
    assert_eq!(groups(&history([]), "1"), None);
    // other packages are no groups of this one
    let others = (0..100).map(|n| test_summary(&n.to_string(), &format!("p{n}"), "1", two(n)));
    assert_eq!(groups(&history(others), "1"), None);
}

#[test]
fn a_shift_with_the_version_is_no_grouping() {
    let moved = history((0..60).map(|n| if n < 30 { built(n, "1", 16_000) } else { built(n, "2", 40_000) }));
    assert_eq!([groups(&moved, "1"), groups(&moved, "2"), groups(&moved, "3")], [None, None, None]);
}

#[test]
fn new_keys_learn_what_distinguishes_known_groups() {
    let both =
        history((0..60).map(|n| if two(n) > 20_000 { built(n, "2", 40_000) } else { built(n, "1", 16_000) }));
    assert_eq!(groups(&both, "1"), None, "its own attempts are alike");
    let by = groups(&both, "3").unwrap().told_apart_by.unwrap();
    assert_eq!(
        (by.field.as_str(), by.values, by.asked),
        ("version", vec![vec!["1".to_owned()], vec!["2".to_owned()]], None)
    );
}

#[test]
fn hour_and_build_jobs_can_distinguish_groups() {
    let nightly = (0..96).map(|n| built(n, "1", if n % 24 < 6 { 40_000 } else { 16_000 }));
    // 1,700,000,000 seconds is 22:13 UTC
    let by = groups(&history(nightly), "1").unwrap().told_apart_by.unwrap();
    assert_eq!(by.field, "hour of day (UTC)");
    let jobs = (0..60).map(|n| {
        let mut summary = built(n, "1", two(n));
        summary.key.hints.build_jobs = Some(if two(n) > 20_000 { 1 } else { 4 });
        summary
    });
    let by = groups(&history(jobs), "1").unwrap().told_apart_by.unwrap();
    assert_eq!(
        (by.field.as_str(), by.values[1][0].as_str()),
        ("build_jobs", "-j1"),
        "fewer jobs that need more are on no line"
    );
}

#[test]
fn hours_within_one_day_distinguish_nothing() {
    // builds of one afternoon, as many imported rows without a time look
    let quick = |n: usize| {
        let summary = built(n, "1", if (n / 10).is_multiple_of(2) { 40_000 } else { 16_000 });
        Summary { started_unix_ms: 1_700_000_000_000 + 360_000 * n as u64, ..summary }
    };
    let found = groups(&history((0..100).map(quick)), "1").unwrap();
    assert_eq!(found.told_apart_by, None, "{found:?}");
}

#[test]
fn attempts_that_were_stopped_are_in_no_group() {
    let stopped = (0..60).map(|n| {
        let summary = built(n, "1", two(n));
        if two(n) > 20_000 {
            Summary { outcome: Outcome::Failed, censored: true, ..summary }
        } else {
            summary
        }
    });
    assert_eq!(groups(&history(stopped), "1"), None, "more than that is no need");
}

#[test]
fn only_the_newest_kept_attempts_form_groups() {
    let all = (0..1000).map(|n| built(n, "1", if n < 800 { two(n) } else { 16_000 }));
    assert_eq!(groups(&history(all), "1"), None, "long over");
    let all = (0..1000).map(|n| built(n, "1", if n < 800 { 16_000 } else { two(n) }));
    let found = groups(&history(all), "1").unwrap();
    let counted: u32 = found.groups.iter().map(|group| group.attempts).sum();
    assert_eq!(usize::try_from(counted).unwrap(), History::PER_RUNG);
}

#[test]
fn untrusted_attempts_make_no_groups() {
    let mut all: Vec<Summary> = (0..100).map(|n| built(n, "1", two(n))).collect();
    all.iter_mut()
        .filter(|summary| summary.need_peak > Bytes(20_000 << 20))
        .for_each(|summary| summary.opening.untrusted = true);
    assert_eq!(groups(&history(all), "1"), None);
}
