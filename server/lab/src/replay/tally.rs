//! What a policy cost.

use std::collections::BTreeMap;

use super::kind::PolicyKind;

/// Results of all policies.
pub(crate) type PolicyResults = [(PolicyKind, PolicyTally)];

/// A GiB for an hour, in bytes x milliseconds.
const GIB_HOUR: f64 = 1_073_741_824.0 * 3_600_000.0;

/// A retry that holds more than this multiple of the need counts as oversized.
const OVERSIZED_ABOVE: f64 = 1.5;

/// Sums over the attempts that count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyCost {
    /// Builds that count.
    pub(crate) scored: u64,
    /// Builds whose first try was too small.
    pub(crate) first_failed: u64,
    /// Attempts that were lost.
    pub failures: u64,
    /// Builds whose first retry was large enough.
    pub(crate) retry_enough: u64,
    /// Attempts of these whose retry reserved at most 1.5 times the need.
    pub(crate) retry_fitted: u64,
    /// Held above the highest need, and all that lost attempts held, GiB x h.
    pub(crate) surplus_gib_hours: f64,
    /// The highest need for the whole time, GiB x h: what sizes hold that fit exactly.
    pub(crate) need_gib_hours: f64,
}

/// One build as a policy sized it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScoredBuild {
    /// Need of the build, bytes.
    pub(super) peak: f64,
    pub(super) wall_ms: f64,
    /// Memory that the successful try held, bytes.
    pub(super) held: f64,
    /// Memory that the failed tries held, bytes.
    pub(super) lost: f64,
    /// How many there were.
    pub(super) failures: u64,
}

impl PolicyCost {
    pub(super) fn add(&mut self, build: ScoredBuild) {
        let ScoredBuild { peak, wall_ms, held, lost, failures } = build;
        self.scored += 1;
        self.first_failed += u64::from(failures > 0);
        self.failures += failures;
        self.retry_enough += u64::from(failures == 1);
        self.retry_fitted += u64::from(failures == 1 && held <= OVERSIZED_ABOVE * peak);
        self.surplus_gib_hours += (lost + held - peak) * wall_ms / GIB_HOUR;
        self.need_gib_hours += peak * wall_ms / GIB_HOUR;
    }

    /// Share of the builds whose first try was too small.
    pub(crate) fn first_failed_rate(&self) -> f64 {
        share(self.first_failed, self.scored)
    }

    /// Shares of the first retries that were large enough, and of those that held at most 1.5 times the need beside that.
    pub(crate) fn retry_rates(&self) -> [f64; 2] {
        [self.retry_enough, self.retry_fitted].map(|count| share(count, self.first_failed))
    }

    /// Surplus for each unit of need.
    pub(crate) fn surplus_over_need(&self) -> f64 {
        if self.need_gib_hours > 0.0 { self.surplus_gib_hours / self.need_gib_hours } else { 0.0 }
    }
}

/// Costs of one policy, in total and by package.
#[derive(Debug, Clone, Default)]
pub struct PolicyTally {
    /// Over all.
    pub all: PolicyCost,
    /// For each package.
    pub packages: BTreeMap<String, PolicyCost>,
    /// Nanoseconds spent in all predictions.
    pub(super) nanos: u128,
    /// Predictions made.
    pub(super) predictions: u64,
    /// Setting of the knob, if it was turned.
    pub(crate) knob: Option<f64>,
}

impl PolicyTally {
    /// Nanoseconds for one prediction.
    pub(crate) fn predict_ns(&self) -> u64 {
        u64::try_from(self.nanos / u128::from(self.predictions.max(1))).unwrap_or(u64::MAX)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    let float = |count: u64| plimsoll_core::domain::Bytes(count).as_f64();
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}
