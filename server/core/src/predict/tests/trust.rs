//! What untrusted attempts change: a test plays the attacker.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::*;
use crate::domain::{
    AttemptId, Cores, CpuMicros, Millis, OpeningRecord, Outcome, Quantity, Summary, test_summary,
};

const MIB: u64 = Bytes::MIB.0;

fn built(id: &str, project: &str, version: &str, need_mib: u64) -> Summary {
    let mut summary = test_summary(id, "zlib", version, need_mib);
    summary.key.project = project.to_owned();
    summary.key.build_system = "cmake".to_owned();
    summary
}

fn untrusted(summary: Summary) -> Summary {
    Summary { opening: OpeningRecord { untrusted: true, ..OpeningRecord::default() }, ..summary }
}

fn numbers(p: &Prediction) -> [&Quantity; 6] {
    [&p.memory_request, &p.memory_limit, &p.cpu_request, &p.cpu_limit, &p.wall_p50, &p.wall_p95]
}

/// All that is ever answered about a key.
#[derive(Debug, PartialEq)]
struct Answers {
    prediction: Prediction,
    above: [Bytes; 3],
    curve: JobsCurve,
}

fn answers(history: &History, project: &str, version: &str, input: Option<u64>) -> Answers {
    let mut key = built("q", project, version, 1).key;
    key.hints.input_bytes = input;
    let settings = Settings::default();
    Answers {
        prediction: predict(history, &key, &settings),
        above: [100, 1000, 10_000].map(|mib| predict_above(history, &key, &settings, Bytes(mib * MIB))),
        curve: jobs_curve(history, &key, &settings, Some(Bytes(2048 * MIB))),
    }
}

/// Nothing in `after` is below `before`, and what says how to build and how sure that is stays.
fn assert_not_lower(before: &Answers, after: &Answers) {
    for (before, after) in numbers(&before.prediction).into_iter().zip(numbers(&after.prediction)) {
        assert!(after.value >= before.value, "{before:?} became {after:?}");
    }
    let (b, a) = (&before.prediction, &after.prediction);
    assert_eq!((&b.build_jobs, b.confidence.to_bits()), (&a.build_jobs, a.confidence.to_bits()));
    for (before, after) in before.above.into_iter().zip(after.above) {
        assert!(after >= before, "the next size went from {before} to {after}");
    }
    assert_eq!(before.curve, after.curve);
}

/// Twenty builds of each of two projects, at different jobs and inputs.
fn two_projects(capacity: usize) -> History {
    let mut history = History::new(capacity);
    for n in 0..20_u64 {
        for project in ["ours", "theirs"] {
            let mut summary = built(&format!("{project}-{n}"), project, "1", 900 + 10 * (n % 5));
            summary.key.hints.build_jobs = Some(if n % 2 == 0 { 2 } else { 4 });
            summary.key.hints.input_bytes = Some((100 + n) * MIB);
            history.learn(Arc::new(summary));
        }
    }
    history
}

#[test]
fn measured_but_unused_attempts_are_mentioned() {
    let mut history = History::new(100);
    let reason =
        |history: &History| predict(history, &built("q", "a/x", "1", 1).key, &Settings::default()).reason;
    assert!(!reason(&history).contains("measured"), "{}", reason(&history));
    for number in 0..3 {
        // below every default, so that it raises nothing
        let (wall, cpu, cpu_peak) = (Millis(1000), CpuMicros(1000), Cores(0.001));
        let small = Summary { wall, cpu, cpu_peak, ..built(&format!("u{number}"), "a/x", "1", 300) };
        history.learn(untrusted(small));
    }
    let shown = reason(&history);
    let end = "; 3 measured attempts are not used: who delivered them is not `trusted` in the access file";
    assert!(shown.starts_with("nothing is known about zlib@1") && shown.ends_with(end), "{shown}");
    // one that counts is enough to say nothing of them
    history.learn(built("t", "a/x", "1", 300));
    assert!(!reason(&history).contains("not used"), "{}", reason(&history));
}

#[test]
fn untrusted_attempts_lower_nothing_and_affect_no_others() {
    // just as large as the attempts that are there: one attempt more would push the oldest out
    let mut history = two_projects(40);
    let all = |history: &History| {
        let asks = [("ours", "1"), ("ours", "2"), ("theirs", "1"), ("none", "1")];
        let at = |input| asks.map(|(project, version)| answers(history, project, version, input));
        [at(None), at(Some(110 * MIB))]
    };
    let before = all(&history);
    let forge = |n: u64, kind: u64| {
        let mut summary = built(&format!("x{n}"), "ours", if n.is_multiple_of(3) { "2" } else { "1" }, 1);
        match kind {
            0 => (summary.wall, summary.cpu, summary.cpu_peak) = (Millis(1), CpuMicros(1), Cores(0.001)),
            1 => summary.need_peak = Bytes(60 << 40),
            2 => {
                (summary.key.hints.build_jobs, summary.key.hints.input_bytes) = (Some(64), Some(110 * MIB));
            }
            3 => {
                summary.retries = AttemptId::parse("ours-19").ok();
                (summary.outcome, summary.censored) = (Outcome::Failed, true);
            }
            // the id of an attempt that is known
            _ => summary.attempt = AttemptId::parse(&format!("theirs-{}", n % 20)).unwrap(),
        }
        untrusted(summary)
    };
    for kind in 0..5 {
        for n in 0..2000 {
            history.learn(Arc::new(forge(kind * 2000 + n, kind)));
        }
        let after = all(&history);
        for (before, after) in before.iter().zip(&after) {
            assert_not_lower(&before[0], &after[0]);
            assert_not_lower(&before[1], &after[1]);
            assert_eq!(before[2..], after[2..], "another project, and a new one");
        }
    }
}

#[test]
fn a_trusted_attempt_reclaims_its_squatted_id() {
    let mut history = History::new(100);
    history.learn(Arc::new(untrusted(built("1", "ours", "1", 1))));
    history.learn(Arc::new(built("1", "ours", "1", 500)));
    let id = AttemptId::parse("1").unwrap();
    assert_eq!(history.get(&id).map(|brief| brief.need_peak), Some(Bytes(500 * MIB)));
    let key = built("q", "ours", "1", 1).key;
    assert_eq!(predict(&history, &key, &Settings::default()).attempts, 1);
}

#[test]
fn larger_untrusted_attempts_raise_only_their_project() {
    let mut history = two_projects(1000);
    for n in 0..20 {
        history.learn(Arc::new(untrusted(built(&format!("x{n}"), "ours", "1", 2000))));
    }
    let key = built("q", "ours", "1", 1).key;
    let (prediction, used) = explain(&history, &key, &Settings::default());
    assert!(prediction.memory_limit.value > 2000 * MIB, "{prediction:?}");
    assert!(
        prediction.reason.ends_with("; untrusted attempts of this project raise it"),
        "{}",
        prediction.reason
    );
    assert!(used.iter().any(|used| used.attempt.as_str() == "x3"));
}

#[test]
fn ordinary_untrusted_attempts_raise_little() {
    let mut history = two_projects(1000);
    let before = answers(&history, "ours", "1", None).prediction.memory_limit.value;
    for n in 0..20 {
        history.learn(Arc::new(untrusted(built(&format!("x{n}"), "ours", "1", 900 + 10 * (n % 5)))));
    }
    let after = answers(&history, "ours", "1", None).prediction.memory_limit.value;
    assert!(after <= before * 11 / 10, "{before} and {after}");
}

#[test]
fn untrusted_claims_raise_sizes_at_most_fourfold() {
    let mut history = two_projects(1000);
    let key = built("q", "ours", "1", 1).key;
    let (before, failed) = (predict(&history, &key, &Settings::default()), Bytes(900 * MIB));
    let above = predict_above(&history, &key, &Settings::default(), failed);
    for n in 0..200 {
        history.learn(Arc::new(untrusted(built(&format!("x{n}"), "ours", "1", 60 << 20))));
    }
    let after = predict(&history, &key, &Settings::default());
    assert_eq!(after.memory_limit.value, 4 * before.memory_limit.value, "{}", after.reason);
    assert_eq!(after.memory_limit.basis.bound.to_string(), "4 times what trusted attempts say");
    assert!(
        after.reason.ends_with("raise it, to at most 4 times what trusted attempts say"),
        "{}",
        after.reason
    );
    assert!(predict_above(&history, &key, &Settings::default(), failed) <= Bytes(4 * above.0));
}

/// `(version, need in MiB, jobs, input in MiB, stopped by memory)`.
type Built = (u8, u64, u32, u64, bool);

fn attempts(most: usize) -> impl Strategy<Value = Vec<Built>> {
    let one = (0..3_u8, 1..20_000_u64, 0..5_u32, 0..50_u64, prop::bool::weighted(0.2));
    prop::collection::vec(one, 0..most)
}

fn learn(history: &mut History, project: &str, name: &str, attempts: &[Built], trusted: bool) {
    for (n, (version, need, jobs, input, stopped)) in attempts.iter().enumerate() {
        let mut summary = built(&format!("{name}{n}"), project, &version.to_string(), *need);
        summary.key.hints.build_jobs = (*jobs > 0).then_some(*jobs);
        summary.key.hints.input_bytes = (*input > 0).then_some(input << 20);
        if *stopped {
            (summary.outcome, summary.censored) = (Outcome::Failed, true);
        }
        history.learn(Arc::new(if trusted { summary } else { untrusted(summary) }));
    }
}

proptest! {
    #[test]
    fn whatever_was_learnt_no_untrusted_attempts_lower_anything(
        ours in attempts(20), theirs in attempts(20), forged in attempts(60), input in 0..50_u64
    ) {
        let mut history = History::new(30);
        learn(&mut history, "ours", "a", &ours, true);
        learn(&mut history, "theirs", "b", &theirs, true);
        let input = (input > 0).then_some(input << 20);
        let all = |history: &History| ["ours", "theirs", "none"].map(|project| answers(history, project, "1", input));
        let before = all(&history);
        learn(&mut history, "ours", "c", &forged, false);
        let after = all(&history);
        assert_not_lower(&before[0], &after[0]);
        prop_assert_eq!(&before[1..], &after[1..]);
    }
}

#[test]
fn untrusted_only_projects_are_bounded_by_the_fleet() {
    let mut history = two_projects(1000);
    for n in 0..20 {
        history.learn(Arc::new(untrusted(built(&format!("x{n}"), "a-fork", "1", 200 << 10))));
    }
    let key = built("q", "a-fork", "1", 1).key;
    let prediction = predict(&history, &key, &Settings::default());
    let unknown = predict(&history, &built("q", "another", "1", 1).key, &Settings::default());
    let most = history.highest_need().unwrap().0.max(raise::MAX_RAISE * unknown.memory_limit.value);
    assert!(prediction.memory_limit.value <= most, "{} of {most}", prediction.memory_limit.value);
    assert!(prediction.reason.ends_with("to at most what trusted attempts of any project need"));
    let failed = Bytes(unknown.memory_limit.value);
    let above = predict_above(&history, &key, &Settings::default(), failed);
    assert!(above > failed && above.0 < 50 << 30, "{above:?}");
}
