//! A next size and a prediction for the same key at the same moment do not contradict each other, and a next size never goes down.

use plimsoll_proto::reasons::SizeBound;

use super::*;
use crate::{
    domain::{Hints, NamedSizes, Prediction, Reporter, test_history as history},
    predict::{as_answer, predict_known},
};

/// An attempt of zlib that the kernel killed at a limit of so many MiB, with this many build jobs.
fn killed(id: &str, limit: u64, jobs: Option<u32>) -> Summary {
    let resources = Resources { memory_limit: Some(Bytes(limit * MIB)), ..Resources::default() };
    let mut summary = Summary {
        attempt: AttemptId::parse(id).unwrap(),
        resources,
        need_peak: Bytes((limit - 1) * MIB),
        cause: Some(Cause::Oom),
        censored: true,
        ..failed(Some(1))
    };
    summary.key.hints = Hints { build_jobs: jobs, ..Hints::default() };
    summary
}

fn built(id: u64, package: &str, need: u64, jobs: Option<u32>) -> Summary {
    let mut summary = test_summary(&format!("b{id}"), package, "1", need);
    summary.key.hints = Hints { build_jobs: jobs, ..Hints::default() };
    summary
}

/// The verdict on an attempt that is in the history already, and what callers get for its key at that moment.
fn both(summary: &Summary, history: &History, settings: &Settings) -> (Verdict, Prediction) {
    let asked = Evidence { key: summary.key.clone(), ..evidence_of(summary.clone()) };
    (judge_with(&asked, history, settings), predict_known(history, &summary.key, settings))
}

#[test]
fn a_retry_without_growth_has_the_predicted_size() {
    let settings = Settings::default();
    let apart = (0..12).map(|n| built(n, "zlib", if n % 3 == 0 { 9000 } else { 20 }, None));
    let others = (0..80).map(|n| built(n, &format!("other-{n}"), 20_000, None));
    for history in [history(apart), history(others)] {
        let resources = Resources::default();
        let broken = Summary { resources, ..failed(Some(0)) };
        let next =
            judge_with(&evidence(Some(broken.clone()), Exit::Code(1), ""), &history, &settings).next.unwrap();
        let predicted = predict_known(&history, &broken.key, &settings);
        let predicted = as_answer(predicted, &history, &broken.key, &settings);
        let sizes = |of: &Prediction| (of.memory_request.value, of.memory_limit.value);
        assert_eq!(sizes(&next), sizes(&predicted), "{next:?}");
    }
}

#[test]
fn predictions_after_a_kill_match_the_verdict() {
    let settings = Settings::default();
    let later =
        |summary: Summary| Summary { started_unix_ms: summary.started_unix_ms + 3_600_000, ..summary };
    let long = |n| Summary { wall: Millis(600_000), ..built(n, "zlib", 150, None) };
    let killed = later(Summary { wall: Millis(60_000), ..killed("k", 420, None) });
    let mut known = history((0..8).map(long).chain([killed.clone()]));
    for (per_second, grows) in [(0.0, false), (1e6, true)] {
        let growth = Some(MemoryGrowth { need: Bytes(400 * MIB), per_second });
        let asked = Evidence { growth, ..evidence_of(killed.clone()) };
        let mut verdict = judge_with(&asked, &known, &settings);
        verdict.basis.built = Some(Box::new(killed.key.build_key()));
        verdict.basis.reported_by = Reporter::server();
        known.note_memory_end(&verdict);
        let predicted = predict_known(&known, &killed.key, &settings);
        let next = verdict.next.unwrap();
        assert!(next.memory_limit.value >= 630 * MIB, "{next:?}");
        assert_eq!(matches!(next.memory_limit.basis.bound, SizeBound::Grown(_)), grows, "{next:?}");
        let sizes = |of: &Prediction| [of.memory_request.value, of.memory_limit.value];
        assert_eq!(sizes(&predicted), sizes(&next), "grows: {grows}");
        let again = judge_with(&asked, &known, &settings).next.unwrap();
        assert_eq!(sizes(&again), sizes(&next), "the note changes no verdict");
    }
}

#[test]
fn a_kill_counts_before_its_attempt_is_learnt() {
    let settings = Settings::default();
    let lost = killed("k", 420, None);
    let asked = evidence_of(lost.clone());
    for fitted in [0, 8] {
        let mut known = history((0..fitted).map(|n| built(n, "zlib", 150, None)));
        let mut verdict = judge_with(&asked, &known, &settings);
        verdict.given_unix_ms = Some(lost.ended_unix_ms() + 3_600_000);
        verdict.basis.built = Some(Box::new(lost.key.build_key()));
        verdict.basis.reported_by = Reporter::server();
        known.note_memory_end(&verdict);
        let predicted = predict_known(&known, &lost.key, &settings);
        let next = verdict.next.clone().unwrap();
        assert_eq!(predicted.memory_request.value, next.memory_request.value, "{fitted} fitted");
        assert_eq!(predicted.memory_limit.value, next.memory_limit.value, "{fitted} fitted");
        assert!(predicted.memory_limit.value >= 630 * MIB, "{predicted:?}");
        assert!(predicted.lower_bound.is_some(), "{predicted:?}");
        // another key, and a build that fitted since
        let other = Key { version: "2".to_owned(), ..lost.key.clone() };
        assert_eq!(predict_known(&known, &other, &settings).lower_bound, None);
        let mut later = built(99, "zlib", 500, None);
        later.started_unix_ms += 7_200_000;
        known.learn(later);
        assert_eq!(predict_known(&known, &lost.key, &settings).lower_bound, None);
    }
}

#[test]
fn the_reason_explains_sizes_below_the_default() {
    let unknown = killed("k", 100, None);
    let (verdict, predicted) = both(&unknown, &history([unknown.clone()]), &Settings::default());
    let next = verdict.next.unwrap();
    assert_eq!((next.memory_limit.value, predicted.memory_limit.value), (200 * MIB, 200 * MIB));
    let before = killed("k", 100, None);
    let next = both(&before, &history([]), &Settings::default()).0.next.unwrap();
    let expected = "memory limit 200 MiB: a step of 100 MiB above 100 MiB, where memory stopped the last attempt; when this was \
                judged, no such build had succeeded, and the default limit of 4.00 GiB is no measurement of one, so it does not count";
    assert!(next.reason.ends_with(expected), "{}", next.reason);
    let mut of_a_fork = built(1, "zlib", 300, None);
    of_a_fork.opening.untrusted = true;
    let (verdict, _) = both(&unknown, &history([of_a_fork]), &Settings::default());
    let reason = verdict.next.unwrap().reason;
    assert!(
        reason.contains("when this was judged, no trusted build of this package had succeeded"),
        "{reason}"
    );
    let capped = capped(2050);
    let (verdict, _) = both(&unknown, &history([]), &capped);
    let reason = verdict.next.unwrap().reason;
    assert!(reason.contains("the default limit of 2.00 GiB is no measurement"), "{reason}");
    let large = killed("k", 5000, None);
    let (verdict, _) = both(&large, &history([large.clone()]), &Settings::default());
    assert!(!verdict.next.unwrap().reason.contains("default"));
}

#[test]
fn a_retry_inherits_unknown_build_jobs() {
    let needs = [(2, 200), (4, 380), (8, 740)].into_iter().cycle().take(12);
    let known = (0..).zip(needs).map(|(n, (jobs, need))| built(n, "zlib", need, Some(jobs)));
    let first = killed("k1", 400, Some(8));
    let second = Summary { retries: Some(first.attempt.clone()), number: 2, ..killed("k2", 500, None) };
    let history = history(known.chain([first.clone(), second.clone()]));
    let (verdict, _) = both(&first, &history, &Settings::default());
    let (again, _) = both(&second, &history, &Settings::default());
    let [one, two] = [verdict, again].map(|verdict| verdict.next.unwrap());
    assert_eq!((one.build_jobs.value, two.build_jobs.value), (8, 8));
    assert!(two.memory_limit.value >= one.memory_limit.value, "{two:?} after {one:?}");
}

#[test]
fn a_next_size_never_undercuts_the_previous_verdict() {
    let summary = killed("k", 300, None);
    let named = NamedSizes { request: Bytes(700 * MIB), limit: Bytes(900 * MIB) };
    let asked = Evidence { named_before: Some(named), ..evidence(Some(summary.clone()), Exit::Code(2), "") };
    let next = judge_with(&asked, &history([summary.clone()]), &Settings::default()).next.unwrap();
    assert_eq!((next.memory_request.value, next.memory_limit.value), (700 * MIB, 900 * MIB));
    assert_eq!(next.memory_limit.basis.bound, SizeBound::VerdictBefore);
    assert!(next.reason.contains("as the verdict on the attempt before named it"), "{}", next.reason);
    let cap = capped(800);
    let next = judge_with(&asked, &history([summary]), &cap).next.unwrap();
    assert_eq!(next.memory_limit.value, 800 * MIB, "not above the cap");
}

#[test]
fn a_cap_below_all_needs_refuses_a_retry() {
    let needs = [308, 320, 331, 340, 345, 350, 352, 356];
    let known = |jobs| (0..).zip(needs).map(move |(n, need)| built(n, "zlib", need, jobs));
    let at = |cap: u64, jobs: Option<u32>| {
        let summary = killed("k", 120, jobs);
        let settings = capped(cap);
        both(&summary, &history(known(jobs).chain([summary.clone()])), &settings).0
    };
    for cap in [130, 200] {
        let verdict = at(cap, None);
        assert_eq!((verdict.action, &verdict.next), (Action::No, &None), "{cap}: {}", verdict.reason);
        assert!(verdict.reason.contains(&format!("no more memory than {cap} MiB")), "{}", verdict.reason);
        let (_, size) = verdict.reason.split_once("it would take a memory limit of ").unwrap();
        let size: u64 = size.trim_end_matches(" MiB").parse().unwrap();
        assert!((356..700).contains(&size), "{}", verdict.reason);
    }
    assert_eq!(at(400, None).action, Action::Bigger, "most builds fit");
    let fewer = at(200, Some(8));
    assert_eq!((fewer.action, fewer.next.unwrap().build_jobs.value < 8), (Action::Bigger, true));
    let alone = at(130, Some(2));
    assert_eq!(alone.action, Action::No, "not even one job fits: {}", alone.reason);
}

#[test]
fn never_fitted_builds_share_the_verdicts_lower_bound() {
    for limit in [40, 100, 250, 900, 5000] {
        let unknown = killed("k", limit, None);
        let (verdict, predicted) = both(&unknown, &history([unknown.clone()]), &Settings::default());
        let (next, bound) = (verdict.next.unwrap(), predicted.lower_bound.unwrap());
        assert_eq!(bound.least.0, next.memory_limit.value, "{limit} MiB: {bound:?}");
        assert_eq!((bound.attempts, bound.above.0 / MIB), (1, limit));
        assert!(predicted.memory_request.value >= bound.least.0);
        assert!(predicted.memory_limit.value >= bound.least.0);
    }
    // builds of other packages fitted in less: that is no reason to try less again
    let others = (0..80).map(|n| built(n, &format!("other-{n}"), 60, None));
    let unknown = killed("k", 900, None);
    let (_, predicted) = both(&unknown, &history(others.chain([unknown.clone()])), &Settings::default());
    assert!(predicted.memory_request.value >= predicted.lower_bound.unwrap().least.0, "{predicted:?}");
    let later = Summary { started_unix_ms: unknown.ended_unix_ms(), ..built(1, "zlib", 1000, None) };
    let fitted = history([unknown.clone(), later]);
    assert_eq!(both(&unknown, &fitted, &Settings::default()).1.lower_bound, None, "what is enough is known");
}

#[test]
fn the_later_verdict_on_a_memory_end_counts() {
    let verdict = |limit: u64, given: u64| {
        let killed = killed("open", limit, None);
        let (mut verdict, _) = both(&killed, &history([killed.clone()]), &Settings::default());
        verdict.given_unix_ms = Some(given);
        verdict.basis.built = Some(Box::new(killed.key.build_key()));
        verdict.basis.reported_by = Reporter::server();
        verdict
    };
    let key = killed("open", 400, None).key;
    for verdicts in [[verdict(300, 1), verdict(400, 2)], [verdict(400, 2), verdict(300, 1)]] {
        let mut history = history([]);
        for verdict in &verdicts {
            history.note_memory_end(verdict);
        }
        let bound = predict_known(&history, &key, &Settings::default()).lower_bound.unwrap();
        assert_eq!(bound.above.0 / MIB, 400);
        // an older verdict that names no memory does not undo it, a newer one does
        for (given, is_known) in [(1, true), (3, false)] {
            let undone = Verdict { cause: Cause::Infra, ..verdict(400, given) };
            history.note_memory_end(&undone);
            let predicted = predict_known(&history, &key, &Settings::default());
            assert_eq!(predicted.lower_bound.is_some(), is_known);
        }
    }
}

proptest! {
    #[test]
    fn a_next_size_covers_the_prediction_or_explains(
        needs in prop::collection::vec((50..4000_u64, prop::option::of(1..9_u32)), 0..8),
        kills in prop::collection::vec(50..4000_u64, 0..4),
        others in 0..40_u64,
        (limit, jobs) in (20..6000_u64, prop::option::of(1..9_u32)),
        cap in prop::option::of(100..8000_u64),
    ) {
        let settings = Settings { memory_cap: cap.map(|cap| Bytes(cap * MIB)), ..Settings::default() };
        let last = killed("last", limit, jobs);
        let all = (0..others).map(|n| built(1000 + n, &format!("other-{n}"), 100 + 50 * n, None))
            .chain((0..).zip(&needs).map(|(n, (need, jobs))| built(n, "zlib", *need, *jobs)))
            .chain(kills.iter().enumerate().map(|(n, limit)| killed(&format!("k{n}"), *limit, None)))
            .chain([last.clone()]);
        let (verdict, predicted) = both(&last, &history(all), &settings);
        let Some(next) = &verdict.next else {
            prop_assert!(verdict.action == Action::No && cap.is_some(), "{}", verdict.reason);
            return Ok(());
        };
        for (next_size, predicted) in [(&next.memory_request, &predicted.memory_request), (&next.memory_limit, &predicted.memory_limit)] {
            // a need is kept as a logarithm, so a step above it may be a MiB more
            let is_no_less = next_size.value + MIB >= predicted.value;
            let says_why = next.reason.contains("is no measurement");
            prop_assert!(is_no_less || (predicted.basis.is_default() && says_why), "{next_size:?} beside {predicted:?}: {}", next.reason);
        }
    }
}

#[test]
fn other_projects_cannot_change_a_memory_end() {
    let settings = Settings::default();
    let mut lost = killed("k", 420, None);
    lost.key.project = "team/x".into();
    let asked = evidence_of(lost.clone());
    let mut known = history((0..8).map(|n| built(n, "zlib", 150, None)));
    let mut verdict = judge_with(&asked, &known, &settings);
    verdict.given_unix_ms = Some(lost.ended_unix_ms() + 3_600_000);
    verdict.basis.built = Some(Box::new(lost.key.build_key()));
    let before = predict_known(&known, &lost.key, &settings);
    let by = |known: &mut History, verdict: &Verdict, project: &str| {
        let mut given = verdict.clone();
        given.basis.reported_by = Reporter::of("ci", vec![project.to_owned()]);
        known.note_memory_end(&given);
        predict_known(known, &lost.key, &settings).memory_limit.value
    };
    assert_eq!(by(&mut known, &verdict, "team/y"), before.memory_limit.value, "made up");
    let larger = by(&mut known, &verdict, "team/x");
    assert!(larger >= 630 * MIB, "{larger}");
    let none = Verdict { cause: Cause::Infra, ..verdict };
    assert_eq!(by(&mut known, &none, "team/y"), larger, "taken away");
    assert_eq!(by(&mut known, &none, "team/x"), before.memory_limit.value);
}
