//! How well each number is known.

use std::sync::Arc;

use super::*;
use crate::{
    domain::{Cause, Cores, CpuMicros, History, Outcome, Summary, test_summary},
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
    assert!(silent.is_known(&silent.memory_limit, 0.3), "{}", silent.confidence);
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
    assert!(sure > prediction.confidence_in(&prediction.cpu_request) + 0.05);
}

#[test]
fn differing_attempts_lower_the_confidence() {
    let alike: Vec<Summary> = (0..8).map(|n| build(&n.to_string())).collect();
    let mut apart = alike.clone();
    for summary in apart.iter_mut().step_by(2) {
        summary.cpu = CpuMicros(summary.wall.0 * 1000);
    }
    let sure = |all: &[Summary]| {
        let prediction = predicted(all);
        prediction.confidence_in(&prediction.cpu_request)
    };
    assert!(sure(&apart) < sure(&alike) / 2.0);
}
