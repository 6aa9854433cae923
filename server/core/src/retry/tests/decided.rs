//! A next size is explained by what decided it, the verdict's words agree with it, and a default decides none.

use plimsoll_proto::reasons::{self, SizeBound, SizeKind};

use super::*;
use crate::{
    domain::{Prediction, Quantity},
    predict::predict,
};

fn usual() -> History {
    history_of("zlib", &[308, 320, 331, 340, 345, 350, 352, 356])
}

/// An attempt of zlib that the kernel killed at a limit of so many MiB.
fn killed_at(limit: u64) -> Summary {
    let resources = Resources { memory_limit: Some(Bytes(limit * MIB)), ..Resources::default() };
    Summary {
        resources,
        need_peak: Bytes((limit - 2) * MIB),
        cause: Some(Cause::Oom),
        censored: true,
        ..failed(Some(1))
    }
}

fn words(kind: SizeKind, size: &Quantity) -> String {
    reasons::reason_of_size(kind, size.value, size.basis.quantile, size.basis.margin, &size.basis.bound)
}

fn memory(next: &Prediction) -> [(SizeKind, &Quantity); 2] {
    [(SizeKind::MemoryRequest, &next.memory_request), (SizeKind::MemoryLimit, &next.memory_limit)]
}

#[test]
fn a_verdict_states_a_known_memory_stop() {
    let stopped = |verdict: Verdict| verdict.outlook.stopped_at;
    let judged = verdict_on(killed_at(120), &usual(), &Settings::default());
    assert_eq!((judged.action, stopped(judged)), (Action::Bigger, Some(Bytes(120 * MIB))));
    let blind = Evidence { container_reason: "OOMKilled".to_owned(), ..evidence(None, Exit::Code(137), "") };
    let blind = judge_with(&blind, &usual(), &Settings::default());
    assert_eq!((blind.action, stopped(blind)), (Action::Bigger, None), "what it had is only assumed");
}

#[test]
fn a_size_from_history_is_not_called_step() {
    for limit in [20, 60, 120, 180, 240] {
        let next = verdict_on(killed_at(limit), &usual(), &Settings::default()).next.unwrap();
        for (kind, size) in memory(&next) {
            assert!(size.value >= 356 * MIB && size.value < 600 * MIB, "{limit}: {size:?}");
            let shown = words(kind, size);
            assert!(!shown.contains("a step of"), "{limit}: {shown}");
            assert!(size.basis.attempts == 8, "{limit}: {size:?}");
        }
        assert!(!next.reason.contains("a step of"), "{}", next.reason);
    }
}

#[test]
fn steps_and_growth_are_named_correctly() {
    let settings = Settings::default();
    let next = verdict_on(killed_at(550), &usual(), &settings).next.unwrap();
    for (_, size) in memory(&next) {
        assert_eq!(size.basis.bound, SizeBound::Stopped("550 MiB".to_owned()), "{size:?}");
        assert_eq!((size.value, size.basis.attempts), (825 * MIB, 0));
    }
    // half of the builds take a minute, and this one ended at once
    let summary = Summary { wall: Millis(1000), ..killed_at(550) };
    let growth = Some(MemoryGrowth { need: summary.need_peak, per_second: 5.0 * Bytes(MIB).as_f64() });
    let grown = Evidence { growth, ..evidence(Some(summary), Exit::Code(2), "") };
    let next = judge_with(&grown, &usual(), &settings).next.unwrap();
    for (_, size) in memory(&next) {
        assert_eq!(size.basis.bound, SizeBound::Grown("550 MiB".to_owned()), "{size:?}");
    }
}

#[test]
fn an_unknown_packages_kill_leads_to_a_step() {
    let strangers: Vec<Summary> =
        (0..3).map(|n| test_summary(&format!("s{n}"), &format!("other-{n}"), "1", 20_000)).collect();
    for others in [0, 3] {
        let mut history = History::new(100);
        strangers.iter().take(others).for_each(|other| history.learn(Arc::new(other.clone())));
        for (kills, limit) in [(1, 100), (2, 200)] {
            let summary =
                Summary { attempt: AttemptId::parse(&format!("k{kills}")).unwrap(), ..killed_at(limit) };
            // the attempt is in the history when its verdict is asked for
            history.learn(Arc::new(summary.clone()));
            let verdict = verdict_on(summary, &history, &Settings::default());
            let next = verdict.next.unwrap();
            for (kind, size) in memory(&next) {
                assert_eq!(size.value, (limit * 3 / 2).max(limit + 100) * MIB, "{others} others: {size:?}");
                let shown = words(kind, size);
                let step = (limit / 2).max(100);
                assert_eq!(
                    shown,
                    format!("a step of {step} MiB above {limit} MiB, where memory stopped the last attempt")
                );
                assert_eq!(size.basis.quantile.to_bits(), 0, "nothing is known of a share: {size:?}");
            }
        }
    }
}

#[test]
fn a_step_starts_above_the_highest_kill() {
    let stopped = |id: &str, limit| Summary { attempt: AttemptId::parse(id).unwrap(), ..killed_at(limit) };
    let next_of = |highest, settings: &Settings| {
        let mut history = History::new(10);
        [highest, 1024, 2048]
            .iter()
            .zip(["a", "b", "c"])
            .for_each(|(limit, id)| history.learn(Arc::new(stopped(id, *limit))));
        verdict_on(stopped("c", 2048), &history, settings).next.unwrap()
    };
    let next = next_of(6144, &Settings::default());
    assert_eq!(next.lower_bound, None, "it is read back as it was written");
    for (kind, size) in memory(&next) {
        assert!((9216 * MIB..=9217 * MIB).contains(&size.value), "{size:?}");
        let expected = "above 2.00 GiB, where memory stopped the last attempt: what similar builds needed";
        assert_eq!(words(kind, size), expected);
        assert!((size.basis.margin - 4.5).abs() < 0.01, "what its pod had grows as far: {size:?}");
    }
    let capped = next_of(6144, &capped(8192));
    assert_eq!(capped.memory_limit.value, 8192 * MIB);
    for highest in [100, 2048] {
        let next = next_of(highest, &Settings::default());
        assert_eq!(next.memory_limit.value, 3072 * MIB, "kills that are not higher say nothing");
        assert_eq!(next.memory_limit.basis.bound, SizeBound::Stopped("2.00 GiB".to_owned()));
    }
}

#[test]
fn as_is_keeps_the_size_or_explains_changes() {
    let sized = |request: Option<u64>, limit: Option<u64>, settings: &Settings| {
        let resources = Resources {
            memory_request: request.map(Bytes),
            memory_limit: limit.map(Bytes),
            ..Resources::default()
        };
        let summary = Summary { resources, ..failed(Some(0)) };
        judge_with(&preempted(summary), &History::new(1), settings)
    };
    let usual = Settings::default();
    let same = sized(Some(200 * MIB), Some(280 * MIB), &usual);
    assert!(same.reason.ends_with("retry with the same size"), "{}", same.reason);
    let reason = same.next.unwrap().reason;
    let expected =
        "memory request 200 MiB: same as the last attempt; memory limit 280 MiB: same as the last attempt";
    assert_eq!(reason, expected);

    let tiny = sized(Some(1), None, &usual);
    let shown = "retry with 64 MiB of memory, because the 1 B that it had is below the least size";
    assert!(tiny.reason.ends_with(shown), "{}", tiny.reason);
    let next = tiny.next.unwrap();
    assert_eq!(next.memory_request.value, 64 * MIB);
    assert_eq!(next.reason, "memory request 64 MiB: raised to the floor of 64 MiB");

    let cap = capped(400);
    let large = sized(None, Some(2048 * MIB), &cap);
    let shown = "retry with 400 MiB of memory, the most there is, in the place of 2.00 GiB";
    assert!(large.reason.ends_with(shown), "{}", large.reason);

    let absurd = sized(Some(1 << 62), None, &usual);
    assert!(absurd.reason.contains("which no machine has"), "{}", absurd.reason);
}

#[test]
fn a_size_that_the_cap_cuts_promises_nothing() {
    let settings = capped(400);
    let history = history_of("zlib", &[350, 390, 420, 300, 380, 310, 405, 360]);
    let verdict = verdict_on(killed_at(100), &history, &settings);
    let next = verdict.next.unwrap();
    assert_eq!((verdict.action, next.memory_limit.value), (Action::Bigger, 400 * MIB));
    assert!(verdict.outlook.clamped);
    let shown = "-> 400 MiB), the most there is, which may not be enough";
    assert!(verdict.reason.ends_with(shown), "{}", verdict.reason);
    let shown = words(SizeKind::MemoryLimit, &next.memory_limit);
    assert_eq!(shown, "cut to the cap of 400 MiB, so it may not be enough");
    assert!(!next.reason.contains("covers 9"), "{}", next.reason);
    let unknown = verdict_on(killed_at(100), &History::new(1), &settings);
    assert!(!unknown.outlook.clamped, "200 MiB is a real step");
    assert!(!unknown.reason.contains("most there is"), "{}", unknown.reason);
}

#[test]
fn predictions_from_kills_alone_have_no_confidence() {
    let mut history = History::new(10);
    for n in 0..4 {
        let attempt = AttemptId::parse(&format!("k{n}")).unwrap();
        history.learn(Arc::new(Summary { attempt, ..killed_at(100) }));
    }
    let predicted = predict(&history, &failed(None).key, &Settings::default());
    assert_eq!(predicted.confidence.to_bits(), 0, "{predicted:?}");
    assert!(!predicted.is_known(&predicted.memory_limit, 0.01));
}
