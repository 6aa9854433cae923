//! How sizes follow what is built: the first builds of a key, a jump, variants that differ, and the size after a failure.

use super::super::*;
use crate::domain::{Millis, Summary, test_history as history, test_summary};

const MIB: u64 = Bytes::MIB.0;

/// One build of an hour, so that memory has its usual price.
fn built(id: usize, (version, variants): (&str, &str), need_mib: u64) -> Summary {
    let mut summary = test_summary(&id.to_string(), "zlib", version, need_mib);
    summary.key.variants = variants.to_owned();
    Summary { wall: Millis(3_600_000), ..summary }
}

fn ask(history: &History, version: &str, variants: &str) -> [u64; 2] {
    let key = built(0, (version, variants), 1).key;
    // a price that no other build decides
    let settings = Settings { failure_price: Some(1.0), ..Settings::default() };
    let prediction = predict(history, &key, &settings);
    [prediction.memory_request.value / MIB, prediction.memory_limit.value / MIB]
}

#[test]
fn the_limits_margin_shrinks_with_equal_builds() {
    for need in [325, 3000, 20_000] {
        for (count, tenths) in [(1, 30), (2, 20), (5, 15)] {
            let history = history((0..count).map(|n| built(n, ("1", ""), need)));
            let [request, limit] = ask(&history, "1", "");
            assert!(limit * 10 <= need * tenths, "{limit} MiB after {count} builds of {need} MiB");
            assert!(request >= need && limit > request, "{request} and {limit} MiB for {need} MiB");
        }
    }
}

#[test]
fn one_fitting_build_overrides_other_packages() {
    let strangers = (100..200).map(|n| test_summary(&n.to_string(), "llvm", "1", 30_000));
    let own = || built(0, ("1", ""), 300);
    assert_eq!(ask(&history(strangers.chain([own()])), "1", ""), ask(&history([own()]), "1", ""));
}

#[test]
fn a_growing_version_is_followed_within_two_attempts() {
    let old = (0..60).map(|n| built(n, ("1", ""), 1000 + 3 * (n as u64 % 7)));
    let new = (60..62).map(|n| built(n, ("2", ""), 2600));
    let history = history(old.chain(new));
    let [request, limit] = ask(&history, "2", "");
    assert!(request >= 2600 && limit >= 2600, "{request} and {limit} MiB");
    let [request, _] = ask(&history, "1", "");
    assert!(request < 1500, "the old version stays as it was: {request} MiB");
}

#[test]
fn an_unkeyed_jump_is_covered_within_two_attempts() {
    let needs = std::iter::repeat_n(1000, 60).chain([2600, 2600]);
    let history = history(needs.enumerate().map(|(n, need)| built(n, ("1", ""), need)));
    let [_, limit] = ask(&history, "1", "");
    assert!(limit >= 2600, "{limit} MiB");
}

#[test]
fn expensive_variants_are_learnt_separately() {
    let variants = ["~cuda", "+cuda"];
    let builds = (0..20).map(|n| built(n, ("1", variants[n % 2]), if n % 2 == 0 { 2000 } else { 20_000 }));
    let history = history(builds);
    let [cheap, _] = ask(&history, "1", "~cuda");
    let [dear, _] = ask(&history, "1", "+cuda");
    assert!(cheap < 3000 && (20_000..26_000).contains(&dear), "{cheap} and {dear} MiB");
}

#[test]
fn most_retries_suffice_without_large_waste() {
    // needs that spread by a factor of two, in a fixed order without a pattern
    let needs: Vec<u64> = (0..400_u64).map(|n| 2000 + (n * 7919 % 401) * 5).collect();
    let history = history(needs.iter().take(128).enumerate().map(|(n, need)| built(n, ("1", ""), *need)));
    let key = built(0, ("1", ""), 1).key;
    let (mut failed, mut enough, mut fitted) = (0, 0, 0);
    for had in [2400, 2800, 3200, 3600] {
        let next = predict_above(&history, &key, &Settings::default(), Bytes(had * MIB)).0 / MIB;
        for need in needs.iter().skip(128).filter(|need| **need > had) {
            failed += 1;
            enough += u32::from(next >= *need);
            fitted += u32::from(next >= *need && next * 2 <= need * 3);
        }
    }
    assert!(enough * 10 >= failed * 9, "{enough} of {failed}");
    assert!(fitted * 10 >= failed * 8, "{fitted} of {failed}");
}

#[test]
fn a_second_failure_jumps_to_the_preset() {
    let history = history((0..40).map(|n| built(n, ("1", ""), 1000)));
    let preset = Bytes(32 << 30);
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    let above =
        |failed| predict_above(&history, &built(0, ("1", ""), 1).key, &settings, Bytes(failed * MIB)).0 / MIB;
    assert_eq!(above(1500), 32 << 10);
    assert!(above(1050) >= 1365, "the first one is a real step: {} MiB", above(1050));
}

#[test]
fn rare_needs_do_not_enlarge_every_retry() {
    // above what failed lie five at 1.3 times and one at 2.6 times the usual need
    let need = |n: usize| {
        if n % 20 == 19 {
            2600
        } else if n % 4 == 3 {
            1300
        } else {
            1000
        }
    };
    let history = history((0..120).map(|n| built(n, ("1", ""), need(n))));
    let key = built(0, ("1", ""), 1).key;
    let next = predict_above(&history, &key, &Settings::default(), Bytes(1100 * MIB)).0 / MIB;
    assert!((1300..=1300 * 3 / 2).contains(&next), "{next} MiB");
}
