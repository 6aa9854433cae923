//! The order in which attempts arrive changes no count.

use super::*;
use crate::domain::RungObservation;

/// Attempts of jobs that ran several times; some name the attempt that they retry, and some of those are unknown or name each other.
fn attempts(count: usize) -> Vec<Summary> {
    let one = |n: usize| {
        let random = n * 7919 % 1009;
        let mut summary =
            test_summary(&format!("{random:0>4}-{n}"), &format!("p{}", n % 3), "1", 1 + random as u64);
        summary.started_unix_ms = START + (random as u64 * 31 % 200) * 60_000;
        if !n.is_multiple_of(4) {
            summary.key.labels =
                [("pipeline".to_owned(), (n % 20).to_string()), ("job".to_owned(), "build".to_owned())]
                    .into();
        }
        (summary.outcome, summary.cause) = match random % 5 {
            0 => (Outcome::Failed, Some(Cause::Oom)),
            1 => (Outcome::Failed, Some(Cause::Infra)),
            _ => (Outcome::Succeeded, None),
        };
        summary.number = if random.is_multiple_of(11) { 2 } else { 1 };
        summary
    };
    let mut all: Vec<Summary> = (0..count).map(one).collect();
    for n in (0..count).step_by(5) {
        let named = n * 13 % count;
        all[n].retries = Some(if n.is_multiple_of(7) { id(n) } else { all[named].attempt.clone() });
        all[n].key = all[named].key.clone();
    }
    all
}

fn empty(room: usize) -> SharedHistory {
    SharedHistory::with_stats(History::new(room), Stats::new(settings()))
}

fn at_once(all: &[Summary], room: usize) -> SharedHistory {
    let history = empty(room);
    let observations: Vec<RungObservation> = all.iter().map(RungObservation::from).collect();
    for (observation, summary) in observations.iter().zip(all) {
        history.stats().add(&summary.into(), &observation.brief);
    }
    history.learn_all(observations);
    history
}

/// All counts and sums, and the sums to six digits: floating-point sums differ in their last bits.
fn counts(history: &SharedHistory) -> String {
    let report = ask(history, Filter::default(), GroupBy::Package, HOUR);
    format!("{:.6?} {:?}", (report.totals, report.groups, report.steps), retries(history))
}

#[test]
fn counts_are_independent_of_arrival_order() {
    // some jobs have more attempts than are kept of a job
    let all = attempts(1201);
    for room in [10_000, 300] {
        let expected = counts(&at_once(&all, room));
        for step in [1, 7, 151, 1200] {
            let history = empty(room);
            (0..all.len()).for_each(|n| drop(history.learn(&all[n * step % all.len()])));
            assert_eq!(counts(&history), expected, "step {step}, room for {room}");
        }
    }
}

#[test]
fn later_changes_count_as_after_a_restart() {
    let all = attempts(600);
    let become_later: Vec<Summary> = all
        .iter()
        .enumerate()
        .map(|(n, summary)| {
            let (outcome, cause) = match n % 3 {
                0 => (Outcome::Failed, Some(Cause::Deterministic)),
                1 => (Outcome::Succeeded, None),
                _ => (summary.outcome, summary.cause),
            };
            Summary { outcome, cause, ..summary.clone() }
        })
        .collect();
    let history = empty(10_000);
    for summary in &all {
        history.learn(summary);
    }
    for summary in &become_later {
        history.replace_summary(summary);
    }
    assert_eq!(counts(&history), counts(&at_once(&become_later, 10_000)));
}
