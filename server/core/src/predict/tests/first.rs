//! The first answers: what is said after one build, or one kill, and while a number was never measured.

use plimsoll_proto::reasons::SizeBound;
use proptest::prelude::*;

use super::super::*;
use crate::domain::{Cores, CpuMicros, Millis, Outcome, Summary, test_history as history, test_summary};

const MIB: u64 = Bytes::MIB.0;

fn built(id: usize, need_mib: u64) -> Summary {
    test_summary(&id.to_string(), "zlib", "1", need_mib)
}

fn killed(id: usize, limit_mib: u64) -> Summary {
    Summary { outcome: Outcome::Failed, censored: true, ..built(id, limit_mib) }
}

fn ask(all: impl IntoIterator<Item = Summary>) -> Prediction {
    predict(&history(all), &built(0, 1).key, &Settings::default())
}

#[test]
fn a_kill_steps_up_regardless_of_the_default() {
    for (limits, step, reason) in [
        (
            vec![100],
            200,
            "memory stopped the only known attempt of this key at 100 MiB, so the sizes are a step of 100 MiB above that",
        ),
        (
            vec![250],
            375,
            "memory stopped the only known attempt of this key at 250 MiB, so the sizes are a step of 125 MiB above that",
        ),
        (
            vec![3000, 5000],
            7500,
            "memory stopped all 2 known attempts of this key, at up to 4.88 GiB, so the sizes are a step of 2.44 GiB above that",
        ),
    ] {
        let (kills, highest) = (limits.len(), Bytes(*limits.last().unwrap() * MIB));
        let next = ask(limits.into_iter().enumerate().map(|(n, limit)| killed(n, limit)));
        for size in [&next.memory_limit, &next.memory_request] {
            assert_eq!((size.value, size.basis.attempts as usize), (step * MIB, kills), "{size:?}");
            assert_eq!(size.basis.bound, SizeBound::Stopped(highest.to_string()));
            assert_eq!((size.basis.rung, size.basis.quantile.to_bits()), (Rung::Exact, 0));
        }
        let bound = next.lower_bound.unwrap();
        assert_eq!((bound.above, bound.attempts as usize, bound.least), (highest, kills, Bytes(step * MIB)));
        assert_eq!(next.reason, reason);
        assert_eq!(
            (next.confidence.to_bits(), next.attempts as usize),
            (0, kills),
            "what is enough is not known"
        );
    }
    let cap = Settings { memory_cap: Some(Bytes(300 * MIB)), ..Settings::default() };
    let capped = predict(&history([killed(1, 250)]), &built(0, 1).key, &cap);
    assert_eq!(capped.memory_limit.value, 300 * MIB, "never above the cap: {capped:?}");
    let preset = Settings { preset: true, ..Settings::default() };
    let preset = predict(&history([killed(1, 250)]), &built(0, 1).key, &preset);
    assert_eq!(preset.memory_limit.value, 4096 * MIB, "the author of a preset knows more: {preset:?}");
    let known = history([killed(1, 250)]);
    let (key, settings) = (built(0, 1).key, Settings::default());
    let predicted = predict(&known, &key, &settings);
    assert_eq!(as_answer(predicted.clone(), &known, &key, &settings), predicted, "it is no guess");
}

#[test]
fn other_packages_do_not_size_after_a_kill() {
    let others = (0..40).map(|n| test_summary(&format!("o{n}"), &format!("other-{n}"), "1", 27_000 + n));
    let prediction = ask(others.chain([killed(1, 128)]));
    assert_eq!([&prediction.memory_request, &prediction.memory_limit].map(|size| size.value), [228 * MIB; 2]);
    assert_eq!(prediction.memory_limit.basis.rung, Rung::Exact);
    assert!(
        prediction.reason.starts_with("memory stopped the only known attempt of this key"),
        "{}",
        prediction.reason
    );
    assert_eq!(prediction.unsure_because, "memory stopped every known attempt");
    assert_eq!(prediction.confidence.to_bits(), 0);
}

#[test]
fn record_kills_step_up_until_a_build_fits() {
    let later = |minutes: u64, summary: Summary| Summary {
        started_unix_ms: summary.started_unix_ms + 60_000 * minutes,
        ..summary
    };
    let known = || (1..=8).map(|n| built(n, 150));
    let usual = ask(known());
    assert!(usual.memory_limit.value < 300 * MIB, "{usual:?}");
    // the last reading was far below the limit that held
    let mut late = later(60, killed(9, 249));
    late.resources.memory_limit = Some(Bytes(420 * MIB));
    let after = ask(known().chain([late.clone()]));
    for size in [&after.memory_request, &after.memory_limit] {
        assert!(size.value >= 630 * MIB && size.value < 1260 * MIB, "{size:?}");
    }
    let bound = after.lower_bound.unwrap();
    assert_eq!(
        (bound.above, bound.attempts, bound.least),
        (Bytes(420 * MIB), 1, Bytes(after.memory_request.value))
    );
    let above = predict_above(
        &history(known().chain([late.clone()])),
        &built(0, 1).key,
        &Settings::default(),
        Bytes(420 * MIB),
    );
    assert_eq!(above.0, after.memory_request.value, "one next size");
    let fitted = ask(known().chain([late, later(120, built(10, 500))]));
    assert_eq!(fitted.lower_bound, None);
    assert!(fitted.memory_limit.value > 500 * MIB, "{fitted:?}");
}

#[test]
fn answers_from_other_packages_are_defaults() {
    let others = || (0..40).map(|n| test_summary(&format!("o{n}"), &format!("other-{n}"), "1", 20_000 + n));
    let (key, settings) = (built(0, 1).key, Settings::default());
    let answer = |all: Vec<Summary>| {
        let history = history(all);
        as_answer(predict(&history, &key, &settings), &history, &key, &settings)
    };
    let guess = ask(others());
    assert!(guess.memory_limit.value > 20_000 * MIB, "{guess:?}");
    let known = answer(others().collect());
    let default = ask([]);
    for (size, default) in [
        (&known.memory_request, &default.memory_request),
        (&known.memory_limit, &default.memory_limit),
        (&known.cpu_limit, &default.cpu_limit),
        (&known.wall_p95, &default.wall_p95),
    ] {
        assert_eq!((size.value, &size.basis.bound), (default.value, &SizeBound::Default), "{known:?}");
        assert_eq!((size.basis.rung, size.basis.attempts), (Rung::Default, 40));
    }
    let reason = &known.reason;
    let expected = "nothing is known about zlib@1 yet, so this is the configured default: the 40 attempts that were looked at are of other \
                    packages or projects";
    assert_eq!(reason, expected);
    assert_eq!(
        [&guess, &known].map(|of| of.confidence.to_bits()),
        [0; 2],
        "programs see that nothing is known"
    );
    // one attempt of the package decides
    let own = answer(others().chain([built(1, 300)]).collect());
    assert!(own.confidence >= 0.1 && own.memory_limit.value < 2048 * MIB, "{own:?}");
    // after a kill it is the size of the verdict, and other packages do not decide it
    let after = answer(others().chain([killed(1, 250)]).collect());
    assert_eq!(
        [&after.memory_request, &after.memory_limit].map(|size| size.value),
        [375 * MIB; 2],
        "{after:?}"
    );
    let expected = "memory stopped the only known attempt of this key at 250 MiB, so the sizes are a step of 125 MiB above that";
    assert_eq!(after.reason, expected);
    assert_eq!(
        (after.cpu_limit.value, &after.cpu_limit.basis.bound),
        (default.cpu_limit.value, &SizeBound::Default)
    );
}

#[test]
fn confidence_grows_with_agreement_never_with_failures() {
    let others = || {
        (0..40).map(|n| {
            let mut summary = built(n, 300);
            "+shared".clone_into(&mut summary.key.variants);
            summary
        })
    };
    let sure = |failures: usize, successes: usize| {
        let failed = (0..failures).map(|n| killed(100 + n, 250));
        ask(others().chain(failed).chain((0..successes).map(|n| built(200 + n, 300)))).confidence
    };
    let alone = sure(0, 0);
    assert!((0.5..0.995).contains(&alone), "{alone}");
    for count in 1..6 {
        assert!(sure(count, 0) <= alone + 1e-9, "{count} failures: {} above {alone}", sure(count, 0));
        assert!(sure(0, count) > sure(count, 0) && sure(0, count) >= sure(0, count - 1), "{count}");
    }
    let agreeing = [1, 2, 5, 10, 40].map(|count| ask((0..count).map(|n| built(n, 300))).confidence);
    assert!(agreeing.is_sorted() && agreeing[4] > 0.9, "{agreeing:?}");
}

#[test]
fn a_low_confidence_says_what_holds_it_down() {
    let why = |all: Vec<Summary>| {
        let asked = ask(all);
        (asked.confidence < 0.99, asked.unsure_because)
    };
    let expected = |why: &str| (true, why.to_owned());
    assert_eq!(why(vec![built(1, 300)]), expected("only 1 attempt is known"));
    assert_eq!(why(vec![killed(1, 100)]), expected("memory stopped every known attempt"));
    let of_another = |n: usize| {
        let mut other = built(n, 2000 + 400 * u64::try_from(n).unwrap());
        "+shared".clone_into(&mut other.key.variants);
        other
    };
    assert_eq!(why((0..9).map(of_another).collect()), expected("few attempts have exactly this key"));
    assert_eq!(why((0..20).map(|n| built(n, 300)).collect()), (false, String::new()), "they agree");
    assert_eq!(why(Vec::new()), (true, String::new()), "the reason says that nothing is known");
}

#[test]
fn an_unmeasured_cpu_peak_keeps_the_default_limit() {
    // as a file that tells CPU time and no highest use is imported
    let mean_only = |n: usize| {
        let wall = Millis(60_000);
        let cpu = CpuMicros(wall.0 * 1513);
        Summary { wall, cpu, cpu_peak: Cores(0.0), samples: 0, ..built(n, 300) }
    };
    // and with its mean as the highest use
    let kept = |n: usize| Summary { cpu_peak: mean_only(n).cpu.cores_over(Millis(60_000)), ..mean_only(n) };
    for count in [1, 2, 10, 40] {
        for all in [(0..count).map(mean_only).collect::<Vec<_>>(), (0..count).map(kept).collect()] {
            let prediction = ask(all);
            let limit = &prediction.cpu_limit;
            assert_eq!((limit.value, &limit.basis.bound), (2000, &SizeBound::Default), "{limit:?}");
            assert!(limit.basis.is_default() && limit.basis.quantile.to_bits() == 0, "{limit:?}");
            assert_eq!(prediction.cpu_request.value, 1513, "a mean is what a request is for");
        }
    }
}

#[test]
fn a_default_that_decides_is_exactly_the_default() {
    let sleep = |n: usize| {
        let (wall, cpu, cpu_peak) = (Millis(700), CpuMicros(4000), Cores(0.01));
        Summary { wall, cpu, cpu_peak, samples: 5, ..built(n, 3) }
    };
    let limit = |count: usize| ask((0..count).map(sleep)).cpu_limit;
    let one = limit(1);
    assert_eq!((one.value, &one.basis.bound), (2000, &SizeBound::Default), "{one:?}");
    assert!(one.basis.is_default() && one.basis.attempts == 1, "{one:?}");
    let many = limit(20);
    assert_eq!((many.value, many.basis.bound), (100, SizeBound::Floor("0.1 cores".to_owned())));
}

#[test]
fn equal_wall_times_are_predicted_exactly() {
    for (wall, count) in [(700, 1), (700, 3), (600_000, 10), (3, 2), (86_400_000, 40)] {
        let prediction = ask((0..count).map(|n| Summary { wall: Millis(wall), ..built(n, 300) }));
        let times = [&prediction.wall_p50, &prediction.wall_p95].map(|time| time.value);
        assert_eq!(times, [wall; 2], "{count} builds");
    }
}

#[test]
fn a_limit_far_above_needs_is_explained() {
    let one = ask([Summary { wall: Millis(3_600_000), ..built(1, 5000) }]);
    assert!(one.memory_limit.value > 10_000 * MIB, "{:?}", one.memory_limit);
    let expected = "times the highest need (4.88 GiB), because only 1 attempt is known";
    assert!(one.reason.contains(expected), "{}", one.reason);
    let many = ask((0..40).map(|n| built(n, 5000)));
    assert!(!many.reason.contains("times the highest need"), "{}", many.reason);
    let small = ask((0..40).map(|n| built(n, 20)));
    assert!(!small.reason.contains("times the highest need"), "{}", small.reason);
}

/// The needs of two kinds of builds under one key, in MiB.
fn two_kinds() -> impl Iterator<Item = u64> {
    (0..100_u64).map(|n| if n % 3 == 1 { 34_000 + 80 * (n * 37 % 90) } else { 13_500 + 60 * (n * 53 % 100) })
}

#[test]
fn a_bimodal_limit_stays_near_the_maximum() {
    let highest = two_kinds().max().unwrap();
    let all = two_kinds().enumerate().map(|(n, need)| Summary { wall: Millis(3_600_000), ..built(n, need) });
    let limit = ask(all).memory_limit.value / MIB;
    assert!(limit > highest && limit < 2 * highest, "{limit} MiB for at most {highest} MiB");
}

#[test]
fn defaults_are_raised_to_the_known_need() {
    let least = |all: Vec<Summary>| {
        let mut prediction = defaults_raised_to_need(&history(all), &built(0, 1).key, &Settings::default());
        prediction.reason.clear();
        [prediction.memory_request.value / MIB, prediction.memory_limit.value / MIB]
    };
    assert_eq!(least(vec![]), [2048, 4096]);
    assert_eq!(least(vec![built(1, 300)]), [2048, 4096]);
    assert_eq!(least(vec![built(1, 3000), built(2, 9000), built(3, 500)]), [9000, 10_350]);
    // a need is kept as a logarithm, which is rounded
    assert!(least(vec![killed(1, 6000)]).iter().all(|mib| (9000..=9001).contains(mib)));
    assert_eq!(least(vec![killed(1, 128)]), [228; 2], "the size that the verdict names");
    let others = (0..40).map(|n| test_summary(&format!("o{n}"), "other", "1", 50_000)).collect();
    assert_eq!(least(others), [2048, 4096], "another package");
}

proptest! {
    #[test]
    fn the_larger_size_never_covers_less(needs in prop::collection::vec((1..20_000_u64, prop::bool::weighted(0.2)), 1..30), cap in prop::option::of(20..20_000_u64), price in 0.0..1e4_f64) {
        let all = needs.iter().enumerate().map(|(n, (need, stopped))| if *stopped { killed(n, *need) } else { built(n, *need) });
        let memory_cap = cap.map(|mib| Bytes(mib * MIB));
        let settings = Settings { memory_cap, failure_price: Some(price), ..Settings::default() };
        let prediction = predict(&history(all), &built(0, 1).key, &settings);
        let [request, limit] = [&prediction.memory_request, &prediction.memory_limit];
        prop_assert!(limit.basis.quantile >= request.basis.quantile, "{request:?} {limit:?}");
        prop_assert!(limit.basis.margin >= 1.0);
    }
}

#[test]
fn a_tiny_needs_limit_stays_near_the_floor() {
    let tiny = |id: usize| Summary { need_peak: Bytes(MIB / 4), ..built(id, 1) };
    for count in [1, 3, 8] {
        let prediction = ask((1..=count).map(tiny));
        assert!(prediction.memory_limit.value < 70 * MIB, "{prediction:?}");
        assert!(!prediction.reason.contains("known"), "{}", prediction.reason);
        assert!(
            !prediction.reason.contains("times") || prediction.reason.contains("floor"),
            "{}",
            prediction.reason
        );
    }
}

#[test]
fn a_killed_attempt_is_not_counted_as_fitting() {
    let stopped = Summary { cause: Some(crate::domain::Cause::Oom), ..killed(2, 550) };
    let prediction = ask([built(1, 500), stopped]);
    assert!(prediction.reason.starts_with("1 attempt of this key needed 500 MiB;"), "{}", prediction.reason);
    assert!(!prediction.reason.contains("only 1 attempt is known"), "{}", prediction.reason);
    assert!(!prediction.reason.contains("need (550 MiB)"), "{}", prediction.reason);
    assert!(
        prediction.reason.contains("1 attempt that memory stopped counts as more than it had"),
        "{}",
        prediction.reason
    );
}

#[test]
fn a_most_used_job_count_is_labelled_correctly() {
    let with = |id: usize, jobs: u32| {
        let mut summary = built(id, 300);
        summary.key.hints.build_jobs = Some(jobs);
        summary
    };
    let mut key = built(0, 1).key;
    key.hints.build_jobs = None;
    let bound = |jobs: &[u32]| {
        let all = jobs.iter().enumerate().map(|(id, jobs)| with(id + 1, *jobs));
        predict(&history(all), &key, &Settings::default()).build_jobs.basis.bound
    };
    assert_eq!(bound(&[2, 4, 8]), SizeBound::MostWeight);
    assert_eq!(bound(&[4, 2, 2]), SizeBound::None);
    assert_eq!(bound(&[2]), SizeBound::None);
}
