//! Bounded decreases, step by step.

use std::sync::Arc;

use super::super::*;
use crate::domain::{OpeningRecord, PredictionSnapshot, Summary, test_summary};

const MIB: u64 = Bytes::MIB.0;

fn settings() -> Settings {
    Settings { max_decrease: Some(0.25), ..Settings::default() }
}

/// An attempt for which `given` (request and limit in MiB) was predicted.
fn built(id: usize, need_mib: u64, given: Option<[u64; 2]>) -> Summary {
    let predicted = given.map(|[request, limit]| PredictionSnapshot {
        memory_request: Bytes(request * MIB),
        memory_limit: Bytes(limit * MIB),
        ..PredictionSnapshot::default()
    });
    let opening = OpeningRecord { predicted, ..OpeningRecord::default() };
    Summary { opening, ..test_summary(&id.to_string(), "zlib", "1", need_mib) }
}

fn sizes(history: &History, settings: &Settings, jobs: Option<u32>) -> [u64; 2] {
    let mut key = built(0, 1, None).key;
    key.hints.build_jobs = jobs;
    let prediction = predict(history, &key, settings);
    [prediction.memory_request.value / MIB, prediction.memory_limit.value / MIB]
}

fn twenty_builds(need_mib: u64, last_given: Option<[u64; 2]>) -> History {
    let mut history = History::new(1000);
    for n in 0..20 {
        history.learn(Arc::new(built(n, need_mib, last_given.filter(|_| n == 19))));
    }
    history
}

#[test]
fn sizes_decrease_by_at_most_a_quarter() {
    let history = twenty_builds(1000, Some([8000, 16_000]));
    assert_eq!(sizes(&history, &settings(), None), [6000, 12_000]);
    let prediction = predict(&history, &built(0, 1, None).key, &settings());
    assert_eq!(prediction.memory_limit.basis.bound.to_string(), "last size of 15.62 GiB");
    assert!(
        prediction.reason.ends_with("going down in steps from the last size of 15.62 GiB"),
        "{}",
        prediction.reason
    );
}

#[test]
fn sizes_follow_immediately_by_default() {
    let history = twenty_builds(1000, Some([8000, 16_000]));
    assert_eq!(
        sizes(&history, &Settings::default(), None),
        sizes(&twenty_builds(1000, None), &settings(), None)
    );
}

#[test]
fn decreases_below_five_percent_are_skipped() {
    let [request, limit] = sizes(&twenty_builds(1000, None), &settings(), None);
    let given = [request * 103 / 100, limit * 103 / 100];
    assert_eq!(sizes(&twenty_builds(1000, Some(given)), &settings(), None), given);
    let given = [request * 110 / 100, limit * 110 / 100];
    assert_eq!(
        sizes(&twenty_builds(1000, Some(given)), &settings(), None),
        [request, limit],
        "a step within the bound"
    );
}

#[test]
fn increases_are_not_bounded() {
    let [request, limit] = sizes(&twenty_builds(1000, None), &settings(), None);
    assert_eq!(sizes(&twenty_builds(1000, Some([100, 200])), &settings(), None), [request, limit]);
}

#[test]
fn stepwise_decreases_converge_to_the_right_size() {
    let mut history = twenty_builds(1000, Some([40_000, 80_000]));
    let right = sizes(&twenty_builds(1000, None), &settings(), None);
    let mut last = [40_000, 80_000];
    let mut steps = 0;
    for id in 100..140 {
        let next = sizes(&history, &settings(), None);
        for (next, last) in next.into_iter().zip(last) {
            // what is kept of a size is rounded to 0.07 %
            assert!(next * 1000 >= last * 749 && next <= last, "{next} MiB after {last} MiB");
        }
        steps += u32::from(next != last);
        last = next;
        history.learn(Arc::new(built(id, 1000, Some(next))));
    }
    assert!(steps < 20, "{steps} changes");
    assert!(
        last[0] * 100 <= right[0] * 106 && last[1] * 100 <= right[1] * 106,
        "{last:?} instead of {right:?}"
    );
}

#[test]
fn only_the_same_build_holds_sizes_up() {
    let history = twenty_builds(1000, Some([8000, 16_000]));
    assert!(sizes(&history, &settings(), Some(1))[1] < 3000, "other jobs");
    let mut other = built(0, 1, None).key;
    other.version = "2".to_owned();
    assert!(predict(&history, &other, &settings()).memory_limit.value < 4000 * MIB, "another version");
}

#[test]
fn untrusted_sizes_do_not_hold_sizes_up() {
    let mut history = twenty_builds(1000, None);
    let free = sizes(&history, &settings(), None);
    let mut forged = built(100, 1000, Some([8000, 16_000]));
    forged.opening.untrusted = true;
    history.learn(Arc::new(forged));
    let after = sizes(&history, &settings(), None);
    assert!(after[1] * 10 <= free[1] * 11, "{free:?} and {after:?}");
}

#[test]
fn a_cap_that_came_later_wins() {
    let history = twenty_builds(1000, Some([8000, 16_000]));
    let settings = Settings { memory_cap: Some(Bytes(5000 * MIB)), ..settings() };
    assert_eq!(sizes(&history, &settings, None), [5000, 5000]);
}
