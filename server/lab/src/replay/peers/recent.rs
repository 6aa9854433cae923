//! Rules that use the peaks of one workload: pod-scaler, krr, and the maximum ever seen.

use std::collections::{HashMap, VecDeque};

use plimsoll_core::domain::Bytes;

use crate::replay::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

/// `OpenShift` pod-scaler (cmd/pod-scaler): p80 of the last 25 executions (their maximum if there are fewer
/// than 10) plus 20 %; 50 % more after each OOM. Its limit of 20 GiB is left out, because larger builds could
/// then never succeed.
#[derive(Debug)]
pub(in crate::replay) struct PodScaler {
    default: f64,
    recent_needs: HashMap<u64, VecDeque<f64>>,
}

const WINDOW_EXECUTIONS: usize = 25;
const QUANTILE_MIN_EXECUTIONS: usize = 10;
const POD_SCALER_MARGIN: f64 = 1.2;
const ESCALATION_FACTOR: f64 = 1.5;

impl PodScaler {
    pub(in crate::replay) fn new(default: f64) -> Self {
        Self { default, recent_needs: HashMap::new() }
    }
}

impl SizingPolicy for PodScaler {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        let Some(last) = self.recent_needs.get(&ask.workload) else {
            return ask.preset.unwrap_or(self.default);
        };
        let mut peaks: Vec<f64> = last.iter().copied().collect();
        peaks.sort_by(f64::total_cmp);
        let rank = if peaks.len() < QUANTILE_MIN_EXECUTIONS {
            peaks.len() - 1
        } else {
            (peaks.len() * 4).div_ceil(5) - 1
        };
        peaks.get(rank).copied().unwrap_or(self.default) * POD_SCALER_MARGIN
    }

    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        failed * ESCALATION_FACTOR
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let last = self.recent_needs.entry(ask.workload).or_default();
        if last.len() >= WINDOW_EXECUTIONS {
            last.pop_front();
        }
        last.push_back(done.peak);
    }
}

/// Robusta krr (strategies/simple.py): the maximum plus 15 %; 25 % more after an OOM.
#[derive(Debug)]
pub(in crate::replay) struct Krr {
    default: f64,
    highest_need: HashMap<u64, f64>,
}

const KRR_MARGIN: f64 = 1.15;
const KRR_OOM_FACTOR: f64 = 1.25;

impl Krr {
    pub(in crate::replay) fn new(default: f64) -> Self {
        Self { default, highest_need: HashMap::new() }
    }
}

impl SizingPolicy for Krr {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        match self.highest_need.get(&ask.workload) {
            Some(most) => most * KRR_MARGIN,
            None => ask.preset.unwrap_or(self.default),
        }
    }

    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        failed * KRR_OOM_FACTOR
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let peak = if done.stopped { done.peak * KRR_OOM_FACTOR / KRR_MARGIN } else { done.peak };
        let most = self.highest_need.entry(ask.workload).or_default();
        *most = most.max(peak);
    }
}

/// The highest need ever seen; doubled after a failure.
#[derive(Debug)]
pub(in crate::replay) struct MaxSeen {
    default: f64,
    highest_need: HashMap<u64, u64>,
}

impl MaxSeen {
    pub(in crate::replay) fn new(default: f64) -> Self {
        Self { default, highest_need: HashMap::new() }
    }
}

impl SizingPolicy for MaxSeen {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        match self.highest_need.get(&ask.workload) {
            Some(most) => Bytes(*most).as_f64(),
            None => ask.preset.unwrap_or(self.default),
        }
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let most = self.highest_need.entry(ask.workload).or_default();
        *most = (*most).max(Bytes::from_f64(done.peak).0);
    }
}
