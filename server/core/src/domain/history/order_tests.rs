//! The order in which attempts arrive changes nothing.

use super::*;
use crate::{
    domain::{Cause, MeasurementSource, Outcome, Summary, test_summary},
    predict::{self, Settings},
};

const KEYS: u64 = 1000;

/// Attempts of [`KEYS`] keys: trusted or not, measured in several ways, some of which failed or are retries. Many end at the same time.
fn attempts(count: usize) -> Vec<Summary> {
    let mut state = 43_u64;
    // Knuth's multiplier for MMIX
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut one = |n: usize| {
        let random = below(KEYS);
        // many attempts of a few keys, few of most
        let of = if below(2) == 0 { random % 7 } else { random };
        let mut summary = test_summary(&format!("a{}-{n}", below(1 << 30)), "", "", 1 + below(5000));
        summary.key = key(of);
        summary.started_unix_ms = 1_700_000_000_000 + below(3000) * 1000;
        summary.wall = Millis(1000 * (1 + below(3600)));
        summary.key.hints.build_jobs = u32::try_from(below(4)).ok();
        summary.key.hints.input_bytes = Some(below(3) << 20).filter(|bytes| *bytes > 0);
        summary.key.labels =
            [("pipeline".into(), below(5).to_string()), ("job".into(), format!("j{of}"))].into();
        summary.opening.untrusted = below(10) == 0;
        match below(10) {
            0 => {
                summary.outcome = Outcome::Failed;
                summary.cause = Some(Cause::Oom);
                summary.censored = true;
                summary.oom_kill = Some(1);
            }
            1 => summary.source = MeasurementSource::ProcessTree,
            2 => (summary.outcome, summary.cause) = (Outcome::Failed, Some(Cause::Infra)),
            _ => {}
        }
        summary
    };
    let mut all: Vec<Summary> = (0..count).map(&mut one).collect();
    for n in (0..count).step_by(20) {
        // three of them retry the same one
        let original = n / 60 * 7;
        all[n].retries = Some(all[original].attempt.clone());
        all[n].key = all[original].key.clone();
    }
    all
}

fn key(n: u64) -> Key {
    Key {
        project: "team/builds".into(),
        package: format!("p{}", n / 10),
        version: format!("{}", n % 5),
        compiler: if n % 10 < 5 { "gcc" } else { "clang" }.into(),
        build_system: if n.is_multiple_of(3) { "cmake" } else { "autotools" }.into(),
        ..Key::default()
    }
}

/// The same attempts as they ended, backwards, in two orders without a system, and all at once.
fn in_orders(all: &[Summary], room: HistoryLimits) -> Vec<(&'static str, History)> {
    let learn = |history: &mut History, order: &mut dyn Iterator<Item = usize>| {
        order.for_each(|at| history.learn(all[at].clone()));
    };
    let count = all.len();
    let mut ended: Vec<usize> = (0..count).collect();
    ended.sort_by_key(|at| (all[*at].ended_unix_ms(), all[*at].attempt.clone()));
    let [mut forward, mut backward, mut mixed, mut other] = [(); 4].map(|()| History::with_room(room));
    learn(&mut forward, &mut ended.iter().copied());
    learn(&mut backward, &mut ended.iter().rev().copied());
    learn(&mut mixed, &mut (0..count).map(|at| at * 7919 % count));
    learn(&mut other, &mut (0..count).rev().map(|at| at * 3571 % count));
    let mut at_once = History::with_room(room);
    at_once.learn_all(all.iter().map(RungObservation::from).collect());
    vec![
        ("as they ended", forward),
        ("backwards", backward),
        ("mixed", mixed),
        ("mixed otherwise", other),
        ("at once", at_once),
    ]
}

/// Everything that a prediction and its explanation say, each number to its last bit.
fn answers(history: &History, keys: u64) -> Vec<String> {
    let settings = Settings { max_decrease: Some(0.2), ..Settings::default() };
    let answer = |n: u64| format!("{:?}", predict::explain(history, &key(n * KEYS / keys), &settings));
    (0..keys).map(answer).collect()
}

/// What is known besides predictions.
fn known(history: &History) -> impl PartialEq + std::fmt::Debug {
    let all: Vec<(AttemptId, RetryStatus)> =
        history.newest_first().map(|brief| (brief.attempt.clone(), history.retry_after(brief))).collect();
    let retried: Vec<_> = history
        .newest_first()
        .step_by(41)
        .map(|brief| history.retried_by(&brief.attempt, &brief.key).map(|retry| retry.attempt.clone()))
        .collect();
    (all, retried, history.bytes(), history.highest_need(), history.mean_held().to_bits())
}

fn assert_alike(histories: &[(&str, History)], keys: u64) {
    let (_, first) = &histories[0];
    let (expected, expected_known) = (answers(first, keys), known(first));
    for (order, history) in &histories[1..] {
        assert!(known(history) == expected_known, "{order}: {} of {}", history.len(), first.len());
        for (answer, expected) in answers(history, keys).iter().zip(&expected) {
            assert_eq!(answer, expected, "{order}");
        }
    }
}

#[test]
fn arrival_order_does_not_change_predictions() {
    let room = HistoryLimits { attempts: 20_000, bytes: usize::MAX };
    let histories = in_orders(&attempts(10_000), room);
    assert!(histories.iter().all(|(_, history)| history.len() == 10_000));
    assert_alike(&histories, KEYS);
}

#[test]
fn arrival_order_does_not_change_evictions() {
    let all = attempts(3001);
    for room in [
        HistoryLimits { attempts: 700, bytes: usize::MAX },
        HistoryLimits { attempts: 20_000, bytes: 300 << 10 },
        HistoryLimits { attempts: 1, bytes: 0 },
    ] {
        let histories = in_orders(&all, room);
        let kept = histories[0].1.len();
        assert!((1..1500).contains(&kept), "{kept}");
        assert!(histories.iter().all(|(_, history)| kept <= 2 || history.bytes() <= room.bytes));
        assert_alike(&histories, 50);
    }
}

#[test]
fn a_replaced_summary_counts_as_if_original() {
    let all = attempts(2003);
    let change = |summary: &Summary| {
        let mut changed = summary.clone();
        changed.outcome = Outcome::Failed;
        changed.cause = Some(Cause::Deterministic);
        // one in three also turns out to have ended at another time
        if changed.need_peak.0.is_multiple_of(3) {
            changed.wall = Millis(changed.wall.0 + 777_000);
        }
        changed
    };
    let changes = |at: usize| at.is_multiple_of(5);
    let mut replaced = History::new(20_000);
    for (at, summary) in all.iter().enumerate() {
        replaced.learn(summary.clone());
        // some at once, the others after all have come
        if changes(at) && at.is_multiple_of(2) {
            replaced.replace_summary(change(summary));
        }
    }
    for (at, summary) in all.iter().enumerate().filter(|(at, _)| changes(*at)) {
        assert!(at.is_multiple_of(5));
        replaced.replace_summary(change(summary));
    }
    let fresh: Vec<RungObservation> = all
        .iter()
        .enumerate()
        .map(|(at, summary)| if changes(at) { change(summary).into() } else { summary.into() })
        .collect();
    let mut at_once = History::new(20_000);
    at_once.learn_all(fresh);
    // what a full list dropped does not come back when a replaced attempt moves: compared where lists are not full
    assert!(known(&replaced) == known(&at_once));
    let rare = |n: &u64| at_once.on_rung(Rung::Package, &key(*n)).count() < History::PER_RUNG;
    let settings = Settings::default();
    let mut compared = 0;
    for key in (0..KEYS).filter(rare).step_by(9).map(key) {
        let of = |history: &History| format!("{:?}", predict::explain(history, &key, &settings));
        assert_eq!(of(&replaced), of(&at_once), "{key:?}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_late_attempt_takes_its_place_by_age() {
    let of = |id: &str, second: u64| {
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.started_unix_ms = 1_700_000_000_000 + second * 1000;
        summary
    };
    let mut history = History::new(3);
    let ids = |history: &History| {
        let all: Vec<String> = history.newest_first().map(|brief| brief.attempt.to_string()).collect();
        let key = test_summary("x", "zlib", "1", 0).key;
        let rung =
            history.on_rung(Rung::Exact, &key).map(|observation| observation.brief.attempt.to_string());
        assert_eq!(all, rung.collect::<Vec<_>>());
        all
    };
    for (id, second) in [("e", 5), ("c", 3), ("b", 2)] {
        history.learn(of(id, second));
    }
    let evicted = history.learn_and_evict(of("d", 4).into());
    assert_eq!((ids(&history), evicted[0].attempt.as_str()), (["e", "d", "c"].map(String::from).into(), "b"));
    // the one that left is not taken back, nor is an older one, also if there is room again
    history.learn(of("a", 1));
    history.unlearn(&AttemptId::parse("d").unwrap());
    history.learn(of("b", 2));
    history.learn(of("a", 1));
    assert_eq!(ids(&history), ["e", "c"]);
    // of those that end together, the larger id counts as the newer
    history.learn(of("c2", 3));
    history.learn(of("c1", 3));
    assert_eq!(ids(&history), ["e", "c2", "c1"]);
}
