//! How well each number is known.

use std::sync::Arc;

use super::*;
use crate::{
    domain::{Cause, Cores, CpuMicros, History, KNOWN_CONFIDENCE, Outcome, Summary, test_summary},
    predict::{Settings, predict},
};

/// A build of llvm with twelve cores.
fn build(name: &str) -> Summary {
    let mut summary = test_summary(name, "llvm", "19", 9_000);
    (summary.cpu, summary.cpu_peak) = (CpuMicros(summary.wall.0 * 12_000), Cores(12.0));
    summary
}

fn killed(name: &str) -> Summary {
    Summary { outcome: Outcome::Failed, cause: Some(Cause::Oom), censored: true, ..build(name) }
}

fn predicted(all: &[Summary]) -> crate::domain::Prediction {
    let mut history = History::new(100);
    for summary in all {
        history.learn(Arc::new(summary.clone()));
    }
    predict(&history, &build("q").key, &Settings::default())
}

#[test]
fn unmeasured_cpu_and_time_keep_defaults() {
    let silent = |n: usize| Summary { cpu: CpuMicros(0), cpu_peak: Cores(0.0), ..build(&n.to_string()) };
    let silent = predicted(&(0..8).map(silent).collect::<Vec<_>>());
    assert!(silent.is_known(&silent.memory_limit, KNOWN_CONFIDENCE), "{}", silent.confidence);
    let killed = predicted(&(0..8).map(|n| killed(&n.to_string())).collect::<Vec<_>>());
    assert_eq!(killed.memory_limit.basis.rung, Rung::Exact);
    assert!(
        !killed.is_known(&killed.memory_limit, 0.01),
        "only known to be too little: {}",
        killed.confidence
    );
    let unknown = [
        (&silent, [&silent.cpu_request, &silent.cpu_limit].to_vec()),
        (&killed, [&killed.cpu_request, &killed.cpu_limit, &killed.wall_p95].to_vec()),
    ];
    for (prediction, quantities) in unknown {
        for quantity in quantities {
            assert!(quantity.basis.is_default() && quantity.basis.rung == Rung::Default, "{quantity:?}");
            assert_eq!(prediction.confidence_in(quantity).to_bits(), 0);
        }
    }
}

#[test]
fn cpu_has_a_rung_of_its_own() {
    let silent = |n: usize| Summary { cpu: CpuMicros(0), cpu_peak: Cores(0.0), ..build(&n.to_string()) };
    let mut all: Vec<Summary> = (0..4).map(silent).collect();
    let mut other = build("other");
    "18".clone_into(&mut other.key.version);
    all.push(other);
    let prediction = predicted(&all);
    assert_eq!(prediction.memory_limit.basis.rung, Rung::Exact, "{prediction:?}");
    assert_eq!(prediction.cpu_limit.basis.rung, Rung::NoVersion, "no attempt of this version tells it");
    let known = predicted(&(0..8).map(|n| build(&n.to_string())).collect::<Vec<_>>());
    let sure = known.confidence_in(&known.cpu_request);
    assert!((sure - known.confidence).abs() < 0.05, "{sure} beside {}", known.confidence);
    assert!(sure > prediction.confidence_in(&prediction.cpu_request));
}

#[test]
fn few_attempts_flatten_the_odds() {
    assert_eq!([0, 5, 100].map(|alike| share_that_fits(0.5, alike).to_bits()), [0.5_f64.to_bits(); 3]);
    for covered in [0.6, 0.9, 0.99, 1.0] {
        let sure = [0, 1, 5, 100].map(|alike| share_that_fits(covered, alike));
        assert!(sure.is_sorted() && sure[0] > 0.5 && sure[3] < covered, "{covered}: {sure:?}");
        assert!((sure[3] - covered).abs() < 0.01, "{covered}: {sure:?}");
    }
    assert!(share_that_fits(0.2, 0) > 0.2, "a limit that covers little is as uncertain");
}
