//! Lowerings that failed are taken back; noise is none.

use super::*;
use crate::domain::{AttemptId, Cause, Resources};

const DAY_MS: u64 = 24 * 3_600_000;
/// 2026-11-01.
const FIRST_DAY_MS: u64 = 20_758 * DAY_MS;

/// An attempt on this day (counted from 1) with this many GiB as request and limit, that needed `need_mib`.
fn run(day: u64, gib: u64, need_mib: u64) -> Summary {
    let size = Some(Bytes(gib << 30));
    let mut summary = test_summary(&day.to_string(), "trilinos", "1", need_mib);
    summary.started_unix_ms = FIRST_DAY_MS + (day - 1) * DAY_MS;
    summary.resources = Resources { memory_request: size, memory_limit: size, ..Resources::default() };
    summary.key.git_ref = "develop".into();
    summary
}

fn failed(summary: Summary, cause: Cause) -> Summary {
    let (outcome, censored) = (Outcome::Failed, cause.is_memory());
    let need_peak = if censored {
        summary.resources.memory_limit.unwrap_or(summary.need_peak)
    } else {
        summary.need_peak
    };
    Summary { outcome, censored, cause: Some(cause), need_peak, ..summary }
}

fn killed(day: u64, gib: u64) -> Summary {
    failed(run(day, gib, 0), Cause::Oom)
}

/// One attempt a day: the sizes in GiB; a negative one was killed.
fn days(sizes: &[i64]) -> Vec<Summary> {
    let all = (1..).zip(sizes);
    all.map(
        |(day, gib)| {
            if *gib < 0 { killed(day, gib.unsigned_abs()) } else { run(day, gib.unsigned_abs(), 2000) }
        },
    )
    .collect()
}

fn asked() -> Key {
    run(1, 1, 0).key
}

/// The size in GiB that is back, if a lowering is taken back; no predicted size is smaller.
fn held(attempts: Vec<Summary>) -> Option<u64> {
    let prediction = ask(&history(attempts), &asked());
    let from = prediction.taken_back?.from_bytes;
    assert!(prediction.memory_limit.value >= from, "{prediction:?}");
    Some(from / Bytes::GIB.0)
}

#[test]
fn a_killed_lowering_gets_its_old_size_back() {
    let history = history(days(&[20, 20, 3, 3, -3]));
    let prediction = ask(&history, &asked());
    let sizes = [&prediction.memory_request, &prediction.memory_limit];
    assert_eq!(sizes.map(|size| size.value), [20 << 30; 2]);
    assert_eq!(prediction.memory_limit.basis.bound, SizeBound::TakenBack("20.00 GiB".to_owned()));
    let evidence = "lowered on 2026-11-03 from 20 GiB to 3 GiB, killed at 3 GiB on 2026-11-05: back to 20 GiB, held until 2027-02-05";
    assert!(prediction.reason.ends_with(evidence), "{}", prediction.reason);
    let unsure = defaults_raised_to_need(&history, &asked(), &Settings::default());
    assert!(unsure.memory_limit.value >= 20 << 30, "callers that want more confidence, too");
    let by = |id| taken_back_by(&history, &AttemptId::parse(id).unwrap());
    assert_eq!((by("5"), by("4")), (prediction.taken_back, None));
    let need = predict_need(&history, &asked(), &Settings::default());
    assert!(need.memory_limit.value < 10 << 30, "what a verdict compares with a cap: {need:?}");
    let mut again = days(&[20, 20, 3, -3, -3]);
    again.push(killed(6, 3));
    let history = super::history(again);
    let by = |id| taken_back_by(&history, &AttemptId::parse(id).unwrap());
    assert_eq!((by("4").is_some(), by("5"), by("6")), (true, None, None), "it is counted once");
}

#[test]
fn only_a_lowering_that_matters_counts() {
    for (sizes, expected) in [
        (vec![-3], None),
        (vec![6, -3], None),
        (vec![6, 6, -3], Some(6)),
        // a fall of less than a quarter, and one of a quarter
        (vec![6, 6, -5], None),
        (vec![8, 8, -6], Some(8)),
        // drifting down: what it had at last that was larger by a quarter
        (vec![9, 9, 8, 8, 7, 7, 6, 6, -5], Some(7)),
        // sizes that take turns
        (vec![6, 3, 6, 3, 6, -3], None),
        // larger than before, and too small before
        (vec![3, 3, -6], None),
        (vec![-6, 6, -3], None),
        // before others could be larger by chance: the smallest
        (vec![12, 6, -3], Some(6)),
    ] {
        assert_eq!(held(days(&sizes)), expected, "{sizes:?}");
    }
    // a new size is on trial for its first runs
    let after = |fitted: usize| held(days(&[&[6, 6][..], &vec![3; fitted], &[-3]].concat()));
    assert_eq!([after(19), after(20)], [Some(6), None]);
}

#[test]
fn unlimited_sizes_and_larger_needs_are_sane() {
    let with = |change: fn(&mut Resources)| {
        let mut all = days(&[6, 6, -3]);
        all.iter_mut().take(2).for_each(|before| change(&mut before.resources));
        held(all)
    };
    assert_eq!(with(|had| had.memory_limit = None), Some(6), "a request alone");
    assert_eq!(with(|had| had.memory_request = None), Some(6), "a limit alone");
    assert_eq!(with(|had| *had = Resources::default()), None, "nothing is known of before");
    assert_eq!(with(|had| had.memory_request = Some(Bytes(2 << 30))), Some(6), "the limit alone was lowered");
    // it needs more than the size before: raised above it
    let above = ask(&history(days(&[6, 6, -3, -6])), &asked());
    assert!(above.taken_back.is_some() && above.memory_limit.value > 7 << 30, "{above:?}");
    let capped = Settings { memory_cap: Some(Bytes(5 << 30)), ..Settings::default() };
    let prediction = predict(&history(days(&[6, 6, -3])), &asked(), &capped);
    assert_eq!(prediction.memory_limit.value, 5 << 30);
    assert!(prediction.memory_limit.basis.bound.is_cut() && prediction.taken_back.is_some());
}

#[test]
fn three_failures_on_two_refs_take_it_back() {
    let rows = |refs: [&str; 3], cause: Cause| {
        let mut all = days(&[6, 6, 3, 3, 3]);
        for (at, git_ref) in (2..).zip(refs) {
            all[at] = failed(all[at].clone(), cause);
            all[at].key.git_ref = git_ref.into();
        }
        all
    };
    let two = ["develop", "main", "develop"];
    let reason = ask(&history(rows(two, Cause::Deterministic)), &asked()).reason;
    assert!(reason.contains("failed three times in a row on two refs by 2026-11-05"), "{reason}");
    assert_eq!(held(rows(two, Cause::ToolOom)), Some(6));
    assert_eq!(held(rows(["develop"; 3], Cause::Deterministic)), None, "one ref may be broken");
    for outside in [Cause::Infra, Cause::Preempted, Cause::Canceled] {
        assert_eq!(held(rows(two, outside)), None, "{outside:?}");
    }
    let mut between = rows(two, Cause::Unknown);
    between[3] = run(4, 3, 2000);
    assert_eq!(held(between), None, "not in a row");
    let mut before = rows(two, Cause::Deterministic);
    before[3].resources = before[0].resources;
    assert_eq!(held(before), None, "one of them had the size before");
    assert_eq!(held(rows(two, Cause::ToolOom)[..3].to_vec()), None, "a tool's own limit alone");
}

#[test]
fn it_is_held_for_three_months() {
    let with_later = |days_later: u64| {
        let mut all = days(&[6, 6, -3]);
        // the time is that of the package's newest attempt, of whatever build
        all.push(run(3 + days_later, 1, 100));
        all[3].key.variants = "+cuda".into();
        all.push(run(500, 1, 100));
        all[4].key.package = "zlib".into();
        held(all)
    };
    assert_eq!([with_later(91), with_later(92)], [Some(6), None]);
}

#[test]
fn like_is_compared_with_like() {
    let alternate = |change: fn(&mut Key)| {
        let mut all = days(&[40, 40, 3, 3, 40, 40, -3]);
        for large in [0, 1, 4, 5] {
            change(&mut all[large].key);
        }
        held(all)
    };
    assert_eq!(alternate(|_| {}), Some(40));
    assert_eq!(alternate(|key| key.variants = "+cuda".into()), None);
    assert_eq!(alternate(|key| key.arch = "aarch64".into()), None, "asked without an arch");
    assert_eq!(alternate(|key| key.project = "other".into()), None);
    assert_eq!(alternate(|key| key.hints.build_jobs = Some(64)), None);
    // a version, compiler or stack with a size of its own
    let own = |change: fn(&mut Key)| {
        let mut all = days(&[6, 6, 20, 20, -6]);
        all[2..4].iter_mut().for_each(|large| change(&mut large.key));
        held(all)
    };
    let changes: [fn(&mut Key); 5] = [
        |_| {},
        |key| key.version = "2".into(),
        |key| key.compiler = "clang".into(),
        |key| key.stack = "hep".into(),
        |key| key.hints.input_bytes = Some(1 << 40),
    ];
    assert_eq!(changes.map(own), [Some(20), None, None, None, None]);
    // a failure of a larger version gives no floor to one that fits
    let mut larger = days(&[6, 20, 20, -6, 6]);
    larger[1..4].iter_mut().for_each(|large| large.key.version = "2".into());
    assert_eq!(held(larger), None);
    let mut newer = days(&[6, 6, -3]);
    newer[2].key.version = "2".into();
    let mut asked = asked();
    (asked.version, asked.compiler) = ("3".into(), "gcc".into());
    assert!(ask(&history(newer), &asked).taken_back.is_some(), "versions and compilers share it");
}

#[test]
fn raised_retries_are_not_in_force() {
    let mut all = days(&[-3, -3, 6, 6, -3]);
    for (retry, of) in [(2, "1"), (3, "2")] {
        all[retry].retries = Some(AttemptId::parse(of).unwrap());
    }
    assert_eq!(held(all), None);
    // a retry with the same size, after something outside the build failed, shows that the size is too small
    let mut same = days(&[6, 6, 3, -3]);
    same[2] = failed(run(3, 3, 2000), Cause::Infra);
    (same[3].number, same[3].retries) = (2, Some(AttemptId::parse("3").unwrap()));
    assert_eq!(held(same), Some(6));
}

#[test]
fn untrusted_attempts_change_nothing() {
    let with = |sizes: &[i64], untrusted: std::ops::Range<usize>| {
        let mut all = days(sizes);
        all[untrusted].iter_mut().for_each(|summary| summary.opening.untrusted = true);
        held(all)
    };
    assert_eq!(with(&[6, 6, 3, -3], 3..4), None, "they take nothing back");
    assert_eq!(with(&[3, 60, 60, -3], 1..3), None, "their sizes were not in force");
    assert_eq!(with(&[&[6, 6, -3][..], &[1; 150]].concat(), 3..153), Some(6), "and end nothing");
}

proptest! {
    #[test]
    fn a_floor_only_raises_in_any_order(
        runs in prop::collection::vec((1_u64..10, 0_u8..6, 1_u64..200, 0_u32..3, any::<bool>()), 0..30),
        seed in any::<u64>(),
    ) {
        let made = |(id, (gib, end, day, jobs, untrusted)): (usize, (u64, u8, u64, u32, bool))| {
            let run = run(day, gib, gib * 700);
            let mut made = match end {
                0 => failed(run, Cause::Oom),
                1 => failed(run, Cause::Deterministic),
                _ => Summary { number: 1 + u32::from(end == 2), ..run },
            };
            made.attempt = AttemptId::parse(&id.to_string()).unwrap();
            (made.key.git_ref, made.key.hints.build_jobs) = ((day % 3).to_string(), (jobs > 0).then_some(jobs));
            made.opening.untrusted = untrusted && day % 4 == 0;
            made
        };
        let mut attempts: Vec<Summary> = runs.into_iter().enumerate().map(made).collect();
        let (known, settings) = (history(attempts.clone()), Settings::default());
        let with = predict(&known, &asked(), &settings);
        let without = work_out_with(&known, &asked(), |key, scope| work_out_from(&known, key, &settings, scope)).0;
        let sizes = |of: &Prediction| [of.memory_request.value, of.memory_limit.value];
        let ([request, limit], least) = (sizes(&with), sizes(&without));
        prop_assert!(request >= least[0] && limit >= least[1] && limit >= request);
        prop_assert!(with.taken_back.is_some() || with == without);
        attempts.sort_by_key(|summary| (summary.started_unix_ms ^ seed).wrapping_mul(seed | 1));
        prop_assert_eq!(predict(&history(attempts), &asked(), &settings), with);
    }
}
