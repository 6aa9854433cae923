//! Predicted times hold as often as they promise, also while the whole fleet becomes slower.

use super::{super::*, ask, built, key};
use crate::domain::{Millis, Summary, median, test_history as history, test_summary};

/// The sum of a random number's eight bytes, about normal: mean 0, deviation 1.
fn normal(n: u64) -> f64 {
    // the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)
    let mixed = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed.to_be_bytes().map(f64::from).iter().sum::<f64>() - 1020.0) / 209.0
}

/// Build `n` of twelve packages: minutes that vary, and twice as long from `slow_from` on.
fn build(n: u64, slow_from: u64) -> Summary {
    let mut summary = test_summary(&(n + 1_000_000).to_string(), &format!("p{}", n % 12), "1", 300);
    summary.started_unix_ms += n * 3_600_000;
    let octaves = 0.6 * normal(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) + if n < slow_from { 0.0 } else { 1.0 };
    summary.wall = Millis::from_f64(300_000.0 * octaves.exp2());
    summary
}

fn times(history: &History, key: &Key) -> [u64; 2] {
    let prediction = predict(history, key, &Settings::default());
    [prediction.wall_p50.value, prediction.wall_p95.value]
}

#[test]
fn times_hold_while_the_fleet_slows_down() {
    let mut known = history((0..360).map(|n| build(n, 600)));
    let (mut within, mut ratios) = ([0_u32; 2], Vec::new());
    for n in 360..1080 {
        let next = build(n, 600);
        let predicted = times(&known, &next.key);
        for (count, time) in within.iter_mut().zip(predicted) {
            *count += u32::from(next.wall.0 <= time);
        }
        ratios.push(Millis(predicted[1]).as_f64() / next.wall.as_f64());
        known.learn(next);
    }
    let [half, most] = within.map(|count| f64::from(count) / 720.0);
    assert!((0.45..=0.55).contains(&half) && (0.92..=0.98).contains(&most), "{half} {most}");
    assert!(median(ratios) < 3.0, "the 95 % time says something");
}

#[test]
fn late_times_of_few_attempts_follow_the_fleet() {
    let of_new = |octave: fn(&mut Summary)| {
        let few = (0..2_u64).map(|n| Summary { key: key("new", "1"), ..build(n * 12, 600) });
        let mut builds: Vec<Summary> = (0..240).map(|n| build(n, 600)).chain(few).collect();
        builds.iter_mut().for_each(octave);
        let longest = builds.iter().rev().take(2).map(|summary| summary.wall.0).max().unwrap();
        (times(&history(builds), &key("new", "1"))[1], longest)
    };
    let (uneven, longest) = of_new(|_| ());
    assert!(uneven > longest, "{uneven}, {longest}: two attempts do not show how late the next may be");
    let (equal, longest) = of_new(|summary| summary.wall = Millis(300_000));
    assert_eq!(equal, longest, "no build of the fleet is ever late");
}

#[test]
fn a_shift_of_the_fleet_outdates_answers_whatever_the_order() {
    let idle = Summary { started_unix_ms: 1, ..build(11, 600) }.key;
    let mut known = history((0..600).map(|n| build(n, 600)));
    let (before, version) = (times(&known, &idle), known.answer_version(&idle, true));
    let later = || (600..700).filter(|n| n % 12 != 11).map(|n| build(n, 600));
    later().for_each(|build| known.learn(build));
    assert!(!known.is_current(&version) && times(&known, &idle)[0] > before[0] * 3 / 2);
    let reversed = history(later().rev().chain((0..600).rev().map(|n| build(n, 600))));
    assert_eq!(times(&known, &idle), times(&reversed, &idle));
    let untrusted = later().map(|build| {
        let opening = crate::domain::OpeningRecord { untrusted: true, ..build.opening.clone() };
        Summary { opening, ..build }
    });
    let known = history((0..600).map(|n| build(n, 600)).chain(untrusted));
    assert_eq!(times(&known, &idle), before, "untrusted attempts shift nothing");
}

#[test]
fn late_builds_of_the_fleet_outdate_answers() {
    let idle = build(11, u64::MAX).key;
    let mut known = history((0..600).map(|n| build(n, u64::MAX)));
    let (before, version) = (times(&known, &idle), known.answer_version(&idle, true));
    let later = |slower: fn(u64) -> u64| {
        let others = (600..800).filter(|n| n % 12 != 11);
        others.map(move |n| Summary {
            wall: Millis(build(n, u64::MAX).wall.0 * slower(n) / 8),
            ..build(n, u64::MAX)
        })
    };
    let [shift, lateness] = known.time_shift_and_lateness().map(f64::to_bits);
    // until the lateness alone has changed
    let is_late = later(|n| if n % 10 == 0 { 64 } else { 8 }).any(|build| {
        known.learn(build);
        let [now_shift, now_late] = known.time_shift_and_lateness().map(f64::to_bits);
        now_shift == shift && now_late != lateness
    });
    let after = times(&known, &idle);
    assert!(is_late && !known.is_current(&version), "{before:?} {after:?}");
    assert!(after[0] == before[0] && after[1] != before[1], "{before:?} {after:?}");
    let mut burst = history((0..600).map(|n| build(n, u64::MAX)));
    later(|_| 1).for_each(|build| burst.learn(build));
    assert!(burst.time_shift_and_lateness()[1] <= 0.0 && times(&burst, &idle)[1] > before[0], "not below 0");
}

#[test]
fn odd_times_are_predicted_within_what_was_seen() {
    let of = |walls: &[u64], is_backwards: bool| {
        let builds = walls.iter().zip(0..).map(|(wall, n)| {
            let mut summary = Summary { wall: Millis(*wall), ..build(n * 12, 0) };
            if is_backwards {
                summary.started_unix_ms = 1_700_000_000_000 - n * 3_600_000;
            }
            summary
        });
        times(&history(builds), &build(0, 0).key)
    };
    for backwards in [false, true] {
        assert_eq!(of(&[60_000; 100], backwards), [60_000; 2]);
        let newest = if backwards { 60_000 } else { 90_000 };
        assert_eq!(of(&[60_000, 90_000], backwards), [newest, 90_000]);
        let half: Vec<u64> = (0..100).map(|n| if n % 2 == 0 { 0 } else { 60_000 }).collect();
        assert_eq!(of(&half, backwards), [60_000; 2], "attempts without a time show none");
        let [p50, p95] = of(&(0..100).map(|n| u64::MAX >> (n % 64)).collect::<Vec<_>>(), backwards);
        assert!(p50 > 0 && p50 <= p95);
    }
    assert_eq!(of(&[0; 100], false), times(&History::new(1), &build(0, 0).key));
}

/// Build `n` of five packages, with one to three jobs: every 97 builds the fleet becomes slower or faster.
fn uneven(n: u64) -> Summary {
    let mut summary = build(n, if (n / 97).is_multiple_of(2) { 0 } else { u64::MAX });
    summary.key.package = format!("p{}", n % 5);
    summary.key.hints.build_jobs = Some(1 + u32::from(n.to_be_bytes()[7] % 3));
    summary
}

#[test]
fn the_shift_is_that_of_attempts_learnt_anew() {
    let (mut known, mut all, mut shifts) = (History::new(500), Vec::new(), std::collections::BTreeSet::new());
    for n in 0..1400_u64 {
        // some come late, the newest are taken back, some are corrected; no list of a rung is full, so that none is cut
        let next = uneven(n ^ 5);
        known.learn(next.clone());
        all.push(next);
        if n % 31 == 0 {
            all.iter().rev().take(12).for_each(|summary| known.unlearn(&summary.attempt));
        }
        if n % 23 == 0 {
            let at = all.len() * 98 / 100;
            all[at].key.hints.input_bytes = Some(n);
            all[at].wall.0 *= 4;
            all[at].started_unix_ms -= all[at].wall.0 / 4 * 3;
            drop(known.replace_summary(all[at].clone()));
        }
        let shift = known.time_shift_and_lateness().map(f64::to_bits);
        shifts.insert(shift);
        if n % 13 == 0 || n % 31 == 0 {
            let kept = all.iter().filter(|summary| known.get(&summary.attempt).is_some());
            assert_eq!(shift, history(kept.cloned()).time_shift_and_lateness().map(f64::to_bits), "{n}");
        }
    }
    assert!(shifts.len() > 5, "{}", shifts.len());
}

#[test]
fn full_lists_compare_times_as_learnt_anew() {
    let (mut known, mut all) = (History::new(1000), Vec::new());
    for n in 0..900_u64 {
        let mut next = uneven(n);
        next.key.package = format!("p{}", n % 2);
        known.learn(next.clone());
        all.push(next);
        let now = known.time_shift_and_lateness().map(f64::to_bits);
        if n % 37 == 0 {
            let anew = history(all.iter().cloned()).time_shift_and_lateness();
            assert_eq!(now, anew.map(f64::to_bits), "{n}");
        }
    }
}

#[test]
fn time_quantiles_are_labelled_even_when_equal() {
    let equal = ask(&history((0..9).map(|id| built(id, "1", 100, 0))), &key("zlib", "1"));
    let shares = [&equal.wall_p50, &equal.wall_p95].map(|time| time.basis.quantile);
    let expected = [0.5_f64, 0.95].map(f64::to_bits);
    assert_eq!(shares.map(f64::to_bits), expected, "also where both lie in one step of the grid");
}
