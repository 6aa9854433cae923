//! What a curve says, on builds whose curve is known.

use crate::{
    domain::{
        AttemptId, Bytes, CurveKnown, History, JobsCurve, Key, Millis, Outcome, Rung, Summary,
        test_history as history, test_summary,
    },
    predict::{Settings, jobs_curve, predict},
};

const MIB: u64 = Bytes::MIB.0;

fn key() -> Key {
    test_summary("k", "zlib", "1", 0).key
}

fn built(id: usize, jobs: u32, need_mib: u64, wall_ms: u64) -> Summary {
    let mut summary = test_summary(&id.to_string(), "zlib", "1", need_mib);
    summary.key.hints.build_jobs = (jobs > 0).then_some(jobs);
    summary.wall = Millis(wall_ms);
    summary
}

/// 200 MiB and 300 MiB a job; a minute and nine that the jobs share; 2 % up and down.
fn known(id: usize, jobs: u32) -> Summary {
    let noise = 98 + u64::try_from(id * 3 % 5).unwrap();
    let need = (200 + 300 * u64::from(jobs)) * noise / 100;
    built(id, jobs, need, 60_000 + 540_000 / u64::from(jobs))
}

fn curve(history: &History, limit_mib: Option<u64>) -> JobsCurve {
    jobs_curve(history, &key(), &Settings::default(), limit_mib.map(|mib| Bytes(mib * MIB)))
}

fn needs(curve: &JobsCurve) -> Vec<(u32, u64, u32)> {
    curve.points.iter().map(|point| (point.jobs, point.need_p50.0 / MIB, point.attempts)).collect()
}

#[test]
fn a_known_curve_yields_the_largest_fit() {
    let history = history([2, 4, 2, 4, 2, 4].into_iter().enumerate().map(|(id, jobs)| known(id, jobs)));
    let curve = curve(&history, Some(2048));
    assert_eq!(curve.known, CurveKnown::Line, "{}", curve.reason);
    assert!((280..=320).contains(&(curve.per_job.0 / MIB)), "{}", curve.per_job);
    assert!((150..=250).contains(&(curve.base.0 / MIB)), "{}", curve.base);
    for (jobs, need, attempts) in needs(&curve) {
        let right = 200 + 300 * u64::from(jobs);
        assert!(need.abs_diff(right) * 20 <= right, "-j{jobs} needs {right} MiB, not {need}");
        assert_eq!(attempts, if jobs == 2 || jobs == 4 { 3 } else { 0 }, "-j{jobs}");
    }
    // -j5 needs 1,700 MiB in the middle, 1,734 at most and 1,994 with file pages; -j6 needs 2,000
    assert_eq!(curve.most_that_fit, Some(5), "{}", curve.reason);
    let wall = |jobs| curve.points.iter().find(|point| point.jobs == jobs).unwrap().wall_p50.0;
    assert!(wall(1).abs_diff(600_000) < 6000 && wall(8).abs_diff(127_500) < 6000, "{} {}", wall(1), wall(8));
    let sentences =
        ["each build job needs ", "-j5 is the largest that fits 2.00 GiB", "-j1 needs ", " for 10 min 0 s"];
    for words in sentences {
        assert!(curve.reason.contains(words), "{words:?} in {}", curve.reason);
    }
}

#[test]
fn the_cheapest_job_count_minimizes_memory_over_time() {
    // (200 + 300 j) MiB x (60 + 540 / j) s is least at 2.4 jobs
    let history = history([1, 2, 4, 8, 1, 2, 4, 8].into_iter().enumerate().map(|(id, jobs)| known(id, jobs)));
    let free = curve(&history, None);
    assert_eq!((free.cheapest, free.most_that_fit), (Some(2), None), "{}", free.reason);
    assert!(
        free.reason.contains("-j2 is the cheapest: it holds ")
            && free.reason.contains("name a memory limit to see which -j fits it")
    );
    let held: Vec<f64> = free.points.iter().map(|point| point.held_gib_hours).collect();
    let least = free.points.iter().find(|point| point.jobs == 2).unwrap().held_gib_hours;
    assert!(held.iter().all(|held| *held >= least), "{held:?}");
    // half a GiB is too little for two jobs, and a quarter is for one
    assert_eq!(curve(&history, Some(640)).cheapest, Some(1));
    let none = curve(&history, Some(256));
    assert_eq!((none.most_that_fit, none.cheapest), (None, None));
    assert!(none.reason.contains("not even -j1 fits 256 MiB"), "{}", none.reason);
}

#[test]
fn untried_job_counts_are_not_extrapolated_too_far() {
    let history = history([1, 2, 1, 2].into_iter().enumerate().map(|(id, jobs)| known(id, jobs)));
    let curve = curve(&history, Some(1 << 20));
    assert_eq!(curve.most_that_fit, Some(4), "twice the most that was tried");
    assert!(curve.reason.contains("-j4 fits 1.00 TiB"), "{}", curve.reason);
    assert!(curve.reason.contains("more is too far from what was tried"), "{}", curve.reason);
}

#[test]
fn one_job_count_yields_no_curve() {
    let one = history((0..6).map(|id| known(id, 4)));
    let curve_of = curve(&one, Some(64 << 10));
    assert_eq!(
        (curve_of.known, curve_of.most_that_fit, curve_of.cheapest),
        (CurveKnown::OneCount, None, None)
    );
    assert_eq!(needs(&curve_of).len(), 1);
    assert!(curve_of.reason.contains("all ran at -j4") && curve_of.reason.contains("cannot be known"));
    let untold = curve(&history((0..6).map(|id| built(id, 0, 300, 1000))), None);
    assert_eq!((untold.known, untold.points.len()), (CurveKnown::Nothing, 0));
    assert!(untold.reason.contains("no attempt of this package says"), "{}", untold.reason);
    assert_eq!(curve(&history([]), None).known, CurveKnown::Nothing);
}

#[test]
fn attempts_that_contradict_each_other_make_no_curve() {
    let falling = [(1, 2000), (2, 1000), (4, 500), (1, 1900), (2, 1100), (4, 450)];
    let wild = [(1, 300), (4, 4000), (1, 3900), (4, 320), (1, 310), (4, 310), (1, 4100), (4, 3800)];
    for needs_at in [&falling[..], &wild[..]] {
        let all = needs_at.iter().enumerate();
        let curve =
            curve(&history(all.map(|(id, (jobs, need))| built(id, *jobs, *need, 60_000))), Some(4096));
        assert_eq!(curve.known, CurveKnown::Contradictory, "{}", curve.reason);
        assert_eq!((curve.most_that_fit, curve.cheapest), (None, None));
        assert!(curve.points.iter().all(|point| point.attempts > 0), "only what was tried: {curve:?}");
        assert!(curve.reason.contains("contradict each other"), "{}", curve.reason);
    }
}

#[test]
fn a_flat_memory_need_is_recognized() {
    let all = [1, 8, 2, 8, 1, 2].into_iter().enumerate();
    let curve = curve(&history(all.map(|(id, jobs)| built(id, jobs, 500 + id as u64, 60_000))), Some(4096));
    assert_eq!((curve.known, curve.per_job), (CurveKnown::Flat, Bytes(0)), "{}", curve.reason);
    assert!(curve.reason.starts_with("memory does not depend on -j"), "{}", curve.reason);
    assert_eq!(curve.most_that_fit, Some(16));
}

#[test]
fn other_variants_do_not_affect_the_curve() {
    // the large variant was only built at many jobs: across variants each job would seem to need gigabytes
    let large = (10..20).map(|id| {
        let mut summary = built(id, 16, 30_000, 60_000);
        summary.key.variants = "+everything".to_owned();
        summary
    });
    let small = [2, 4, 2, 4].into_iter().enumerate().map(|(id, jobs)| known(id, jobs));
    let curve = curve(&history(large.chain(small)), Some(4096));
    assert_eq!(curve.rung, Rung::Exact);
    assert!((280..=320).contains(&(curve.per_job.0 / MIB)), "{}", curve.reason);
}

#[test]
fn job_counts_stopped_by_memory_do_not_fit() {
    let stopped = (10..13).map(|id| Summary {
        attempt: AttemptId::parse(&id.to_string()).unwrap(),
        outcome: Outcome::Failed,
        censored: true,
        ..built(id, 4, 3000, 60_000)
    });
    let fine = [1, 2, 1, 2, 1, 2].into_iter().enumerate().map(|(id, jobs)| known(id, jobs));
    let curve = curve(&history(fine.chain(stopped)), Some(3000));
    // without them -j4 would need 1,400 MiB
    assert!(curve.most_that_fit < Some(4), "{}", curve.reason);
    let four = curve.points.iter().find(|point| point.jobs == 4).unwrap();
    assert_eq!((four.attempts, four.stopped), (3, 3));
}

fn stopped(id: usize, jobs: u32, need_mib: u64) -> Summary {
    Summary { outcome: Outcome::Failed, censored: true, ..built(id, jobs, need_mib, 60_000) }
}

#[test]
fn a_measured_misfit_also_rules_out_larger_counts() {
    // at -j3 five builds need more than at -j4, and the line lies between them
    let needs = [(1, 500), (2, 800), (3, 2000), (4, 1400), (8, 2600), (16, 5000)];
    let all = needs.iter().flat_map(|(jobs, need)| [(*jobs, *need); 6]);
    let history = history(all.enumerate().map(|(id, (jobs, need))| built(id, jobs, need, 60_000)));
    for limit in [1700, 1800, 1900, 2000] {
        let curve = curve(&history, Some(limit));
        assert_eq!(curve.known, CurveKnown::Line, "{}", curve.reason);
        assert_eq!(curve.most_that_fit, Some(2), "{limit} MiB: {}", curve.reason);
    }
    assert!(curve(&history, Some(2400)).most_that_fit >= Some(4));
}

#[test]
fn killed_attempts_count_only_as_lower_bounds() {
    let at = |curve: &JobsCurve, jobs| {
        let point = curve.points.iter().find(|point| point.jobs == jobs).unwrap();
        // what is shifted is rounded
        ((point.need_p50.0 + MIB / 2) / MIB, (point.need_p95.0 + MIB / 2) / MIB)
    };
    let fine = || {
        [1, 2, 1, 2, 1, 2]
            .into_iter()
            .enumerate()
            .map(|(id, jobs)| built(id, jobs, 1000 * u64::from(jobs), 60_000))
    };
    // stopped far below what all others needed: nothing new is known
    let low = curve(&history(fine().chain((10..40).map(|id| stopped(id, 2, 100)))), None);
    assert_eq!((at(&low, 2), at(&low, 1)), ((2000, 2000), (1000, 1000)), "{}", low.reason);
    // stopped above all others: a part needs more than that
    let high = curve(&history(fine().chain((10..13).map(|id| stopped(id, 2, 3000)))), None);
    assert_eq!(at(&high, 2), (2000, 4500), "{}", high.reason);
}

#[test]
fn predictions_scale_jobs_like_the_curve() {
    // a line; more jobs that need less; the input says all, the jobs nothing; one number of jobs
    let line = |n: usize| known(n, if n.is_multiple_of(2) { 2 } else { 4 });
    let contradictory = |n: usize| built(n, [1, 2, 4][n % 3], [900, 300, 500, 200][n % 4], 60_000);
    let fed = |n: usize| {
        let input = 100 + 50 * u64::try_from(n % 8).unwrap();
        let mut summary = built(n, [2, 4][n % 2], input * 3, 60_000);
        summary.key.hints.input_bytes = Some(input * MIB);
        summary
    };
    let alone = |n: usize| known(n, 4);
    let kinds: [(&dyn Fn(usize) -> Summary, bool); 4] =
        [(&line, true), (&contradictory, false), (&fed, false), (&alone, false)];
    for (kind, (build, grows)) in kinds.into_iter().enumerate() {
        let history = history((0..24).map(build));
        let mut key = key();
        key.hints.build_jobs = Some(8);
        key.hints.input_bytes = (kind == 2).then_some(300 * MIB);
        let per_job = jobs_curve(&history, &key, &Settings::default(), None).per_job;
        let reason = predict(&history, &key, &Settings::default()).reason;
        assert_eq!(reason.contains(&format!("each job counts {per_job})")), per_job.0 > 0, "{reason}");
        assert_eq!(reason.contains("each job counts"), grows, "{kind}: {reason}");
    }
}
