//! How well one number is known, by the attempts that tell it: those that memory stopped say what was too little of it, and nothing of
//! CPU and time. So the memory of a build can be known well while the rest is only the default.

use super::{
    pool::{Pool, Used, half_known},
    words,
};
use crate::domain::Rung;

/// Deviations of the middle 80 % of a normal distribution, to either side.
const MIDDLE: f64 = 1.28;

/// What is known of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// The rung whose attempts know most of it.
    pub(super) rung: Rung,
    /// 0 to 1; `None` if no attempt tells the number.
    pub(super) confidence: Option<f64>,
}

impl Known {
    /// By what `log` says of each attempt: a logarithm to base 2; what is not finite says nothing.
    pub(super) fn of(pool: &Pool<'_>, log: impl Fn(&Used<'_>) -> f64) -> Self {
        let telling = || pool.used.iter().map(|used| (used, log(used))).filter(|(_, log)| log.is_finite());
        let mut fresh = Rung::LADDER.map(|rung| (rung, 0.0));
        let (mut weight, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (used, log) in telling() {
            if let Some((_, fresh)) = fresh.iter_mut().find(|(rung, _)| *rung == used.rung) {
                *fresh += used.fresh;
            }
            weight += used.weight;
            sum += used.weight * log;
            squares += used.weight * log * log;
        }
        if weight <= 0.0 {
            return Self { rung: Rung::Default, confidence: None };
        }
        let deviation = (squares / weight - (sum / weight).powi(2)).max(0.0).sqrt();
        let width = (MIDDLE * deviation).exp2() - (-MIDDLE * deviation).exp2();
        let told = telling().filter(|(used, _)| !used.fact.censored).count();
        let shares = shares(fresh);
        let heaviest = shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
        let rung = heaviest.map_or(Rung::Default, |(rung, _)| *rung);
        Self { rung, confidence: Some(words::confidence(&shares, told, width)) }
    }
}

/// The share of all weight that each rung has, if it holds attempts with so much freshness; most similar first.
fn shares(fresh: [(Rung, f64); 6]) -> Vec<(Rung, f64)> {
    let mut shares = Vec::with_capacity(fresh.len());
    let (mut left, mut of_package) = (1.0, 1.0);
    for (rung, fresh) in fresh.into_iter().filter(|(_, fresh)| *fresh > 0.0) {
        let share = left * fresh / (fresh + half_known(rung));
        left -= share;
        if rung >= Rung::Package {
            of_package = left;
        }
        shares.push((rung, share));
    }
    // attempts of the package hush the default, as they do for memory
    let taken = 1.0 - of_package + of_package * of_package;
    for (_, share) in &mut shares {
        *share /= taken;
    }
    shares
}

#[cfg(test)]
mod tests {
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
    fn a_build_whose_memory_alone_is_known_has_defaults_for_cpu_and_time() {
        let prediction = predicted(&(0..8).map(|n| killed(&n.to_string())).collect::<Vec<_>>());
        assert_eq!(prediction.memory_limit.basis.rung, Rung::Exact);
        for quantity in [&prediction.cpu_request, &prediction.cpu_limit, &prediction.wall_p95] {
            assert!(quantity.basis.is_default() && quantity.basis.rung == Rung::Default, "{quantity:?}");
            assert_eq!(prediction.confidence_in(quantity).to_bits(), 0);
        }
        assert!(prediction.confidence_in(&prediction.memory_limit) > 0.3, "{}", prediction.confidence);
    }

    #[test]
    fn cpu_is_known_by_the_attempts_that_tell_it_on_their_own_rung() {
        let mut all: Vec<Summary> = (0..4).map(|n| killed(&n.to_string())).collect();
        let mut other = build("other");
        "18".clone_into(&mut other.key.version);
        all.push(other);
        let prediction = predicted(&all);
        assert_eq!(prediction.memory_limit.basis.rung, Rung::Exact, "{prediction:?}");
        assert_eq!(prediction.cpu_limit.basis.rung, Rung::NoVersion, "no attempt of this version ended well");
        let known = predicted(&(0..8).map(|n| build(&n.to_string())).collect::<Vec<_>>());
        let sure = known.confidence_in(&known.cpu_request);
        assert!((sure - known.confidence).abs() < 0.05, "{sure} beside {}", known.confidence);
        assert!(sure > prediction.confidence_in(&prediction.cpu_request) + 0.05);
    }

    #[test]
    fn attempts_that_differ_are_known_less_than_those_that_agree() {
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
}
