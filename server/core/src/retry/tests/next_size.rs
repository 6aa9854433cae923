//! The next size is about the limit that held: larger than what failed, no larger than anything says it must be, and explained by
//! its own words alone.

use plimsoll_proto::reasons::SizeBound;

use super::*;
use crate::{
    domain::{Hints, Prediction, Quantity},
    predict::{predict, predict_above},
};

const GIB: u64 = 1024 * MIB;

/// An attempt that memory stopped at `need` MiB, with these sizes in bytes.
fn stopped(need: u64, request: Option<u64>, limit: Option<u64>) -> Summary {
    let resources = Resources {
        memory_request: request.map(Bytes),
        memory_limit: limit.map(Bytes),
        ..Resources::default()
    };
    Summary { resources, ..Summary { need_peak: Bytes(need * MIB), ..failed(Some(1)) } }
}

#[test]
fn requests_above_the_limit_count_as_that_limit() {
    let history = history_of("zlib", &[308, 320, 331, 340, 345, 350, 352, 356]);
    let settings = Settings::default();
    let usual = predict(&history, &evidence(None, Exit::Code(2), "").key, &settings);
    for asked in [None, Some(0), Some(1), Some(64 * MIB), Some(2 * GIB), Some(100 * GIB), Some(1 << 63)] {
        for limit in [Some(120 * MIB), None] {
            let verdict = verdict_on(stopped(118, asked, limit), &history, &settings);
            let next = verdict.next.unwrap();
            assert_eq!(verdict.action, Action::Bigger);
            assert_eq!(next.memory_limit, usual.memory_limit, "asked {asked:?}, limit {limit:?}");
            assert_eq!(next.memory_request, usual.memory_request, "asked {asked:?}, limit {limit:?}");
        }
    }
}

#[test]
fn a_kept_size_is_bounded_by_the_limit() {
    let summary = Summary { oom_kill: Some(0), ..stopped(118, Some(100 * GIB), Some(120 * MIB)) };
    let next = judged(&preempted(summary)).next.unwrap();
    assert_eq!((next.memory_request.value, next.memory_limit.value), (120 * MIB, 120 * MIB));
    assert_eq!(next.memory_request.basis.bound, SizeBound::LastLimit);
    assert_eq!(next.memory_limit.basis.bound, SizeBound::LastAttempt);
}

#[test]
fn asks_that_are_no_sizes_are_not_kept() {
    for odd in [0, 1 << 63, u64::MAX] {
        let summary = Summary { oom_kill: Some(0), ..stopped(118, Some(odd), Some(odd)) };
        let next = judged(&preempted(summary)).next.unwrap();
        assert_eq!(next.memory_request.basis.bound, SizeBound::Default, "{odd}");
        assert_eq!((next.memory_request.value, next.memory_limit.value), (2 * GIB, 4 * GIB), "{odd}");
    }
    let tiny = Summary { oom_kill: Some(0), ..stopped(118, Some(1), Some(1)) };
    let next = judged(&preempted(tiny)).next.unwrap();
    assert_eq!(next.memory_limit.basis.bound, SizeBound::Floor("64 MiB".to_owned()));
}

#[test]
fn limits_close_to_the_cap_count_as_capped() {
    let settings = capped(400);
    let at = |limit: u64, jobs: Option<u32>| {
        let mut summary = stopped(limit - 5, None, Some(limit * MIB));
        summary.key.hints = Hints { build_jobs: jobs, ..Hints::default() };
        let key = summary.key.clone();
        judge_with(
            &Evidence { key, ..evidence(Some(summary), Exit::Code(2), "") },
            &History::new(1),
            &settings,
        )
    };
    for limit in [399, 400] {
        assert_eq!(at(limit, Some(8)).action, Action::FewerJobs, "{limit}");
        assert_eq!(at(limit, Some(1)).action, Action::No, "{limit}");
        let unknown = at(limit, None);
        assert_eq!(unknown.action, Action::No, "two jobs are a default, and no fact");
        assert_eq!(unknown.next, None);
        assert!(!unknown.reason.contains("-j"), "{}", unknown.reason);
    }
    let below = at(350, None);
    assert_eq!((below.action, below.next.unwrap().memory_limit.value), (Action::Bigger, 400 * MIB));
    let below = below.reason;
    assert!(below.ends_with("-> 400 MiB), the most there is, which may not be enough"), "{below}");
}

#[test]
fn an_outer_limit_does_not_count_as_capped() {
    let settings = Settings { memory_cap: Some(Bytes(4 * GIB)), ..Settings::default() };
    let above =
        Summary { oom_origin: Some(OomOrigin::LimitAbove), ..stopped(118, Some(100 * GIB), Some(100 * GIB)) };
    assert_eq!(verdict_on(above, &history_of("zlib", &[300; 8]), &settings).action, Action::Bigger);
}

#[test]
fn a_capped_size_has_the_caps_quantile() {
    let needs: Vec<u64> = (0..40).map(|n| if n % 2 == 0 { 300 } else { 1500 }).collect();
    let key = evidence(None, Exit::Code(2), "").key;
    let at = |cap: u64| {
        let settings = capped(cap);
        predict(&history_of("zlib", &needs), &key, &settings).memory_limit.basis
    };
    assert!((0.3..0.7).contains(&at(500).quantile), "half of the builds fit: {:?}", at(500));
    assert!(at(100).quantile < 0.05, "none fits: {:?}", at(100));
    assert!(at(9000).quantile >= 0.99, "{:?}", at(9000));
}

/// What an attempt asked for and had: sizes, and numbers that are none.
fn sizes() -> impl Strategy<Value = Option<u64>> {
    let odd = prop::sample::select(vec![None, Some(0), Some(1), Some(1 << 63), Some(u64::MAX)]);
    prop_oneof![1 => odd, 4 => (20..8000_u64).prop_map(|mib| Some(mib * MIB)), 1 => Just(Some(100 * GIB))]
}

/// What is too little, by the sizes and the need alone.
fn too_little(summary: &Summary) -> u64 {
    let (need, limit) = (summary.need_peak.0, summary.resources.memory_limit.map_or(0, |limit| limit.0));
    if limit <= 1 << 50 { need.max(limit) } else { need }
}

/// A number is explained by words about it, and not by those of another.
fn is_its_own(quantity: &Quantity, like: &Quantity, summary: &Summary, next: &Prediction) -> bool {
    let (had, value) = (summary.resources, quantity.value);
    let is = |size: Option<Bytes>| size.is_some_and(|size| size.0 == value);
    match &quantity.basis.bound {
        SizeBound::Cap(cap) => Bytes(value).to_string() == *cap,
        SizeBound::Floor(floor) => Bytes(value).to_string() == *floor,
        SizeBound::LastAttempt => is(had.memory_limit) || is(had.memory_request),
        SizeBound::LastLimit => is(had.memory_limit) && had.memory_request > had.memory_limit,
        SizeBound::Request => value == next.memory_request.value,
        SizeBound::Stopped(size) | SizeBound::NeededAbove(size) | SizeBound::Grown(size) => {
            *size == Bytes(too_little(summary)).to_string() && value > too_little(summary)
        }
        _ => quantity == like,
    }
}

proptest! {
    #[test]
    fn the_next_size_is_a_bounded_real_step(
        (request, limit, need) in (sizes(), sizes(), 1..6000_u64),
        needs in prop::collection::vec(50..6000_u64, 0..12),
        cap in prop::option::of(100..8000_u64),
        (jobs, growing, number) in (prop::option::of(1..9_u32), prop::option::of(0.0..1e9_f64), 1..5_u32),
    ) {
        let (history, cap) = (history_of("zlib", &needs), cap.map(|cap| Bytes(cap * MIB)));
        let settings = Settings { memory_cap: cap, ..Settings::default() };
        let mut summary = stopped(need, request, limit);
        summary.key.hints.build_jobs = jobs;
        let failed_at = too_little(&summary);
        let growth = growing.map(|per_second| MemoryGrowth { need: summary.need_peak, per_second });
        let asked = Evidence { number, growth, key: summary.key.clone(), ..evidence(Some(summary.clone()), Exit::Code(2), "") };
        let verdict = judge_with(&asked, &history, &settings);
        let like = predict(&history, &asked.key, &settings);
        let above = predict_above(&history, &asked.key, &settings, Bytes(failed_at)).0;
        let Some(next) = &verdict.next else {
            prop_assert_eq!(verdict.action, Action::No);
            let is_at_cap = cap.is_some_and(|cap| failed_at + failed_at / 10 > cap.0);
            let says_more = verdict.reason.contains("it would take a memory limit of ");
            prop_assert!(is_at_cap || (cap.is_some() && says_more), "an answer names a size: {}", verdict.reason);
            return Ok(());
        };
        let like_confidence = like.confidence;
        let memory = [(&next.memory_limit, &like.memory_limit), (&next.memory_request, &like.memory_request)];
        for (size, like) in memory {
            prop_assert!(is_its_own(size, like, &summary, next), "{size:?} in {next:?}");
            // a real step, or the most there is, which fewer jobs go with
            let is_shown = needs.iter().any(|need| need * MIB > failed_at);
            let step = (failed_at + 100 * MIB).max(if is_shown { failed_at / 20 * 27 } else { failed_at / 2 * 3 });
            let is_most = cap.is_some_and(|cap| size.value == cap.0);
            prop_assert!(size.value >= step || is_most, "{size:?} after {failed_at}");
            // a limit of its own that was not short stays where nothing is known
            let own = limit.filter(|limit| *limit <= 1 << 50 && like_confidence < 0.3);
            let most = [like.value, above, failed_at * 2, failed_at + 101 * MIB, own.unwrap_or(0)];
            prop_assert!(size.value <= most.into_iter().max().unwrap() + MIB, "{size:?}, at most {most:?}");
            prop_assert!(cap.is_none_or(|cap| size.value <= cap.0));
        }
        prop_assert!(next.memory_request.value <= next.memory_limit.value);
        if verdict.action == Action::FewerJobs || next.build_jobs.basis.bound.to_string().contains("most memory") {
            let had = jobs.map_or(like.build_jobs.value, u64::from);
            prop_assert!(next.build_jobs.value < had, "{}", verdict.reason);
        }
    }
}
