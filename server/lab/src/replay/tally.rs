//! Adds up what a policy cost.

use std::collections::BTreeMap;

use plimsoll_core::domain::{CpuMicros, Millis, median};

use super::{
    kind::PolicyKind,
    policy::{FinishedBuild, Promise},
    reliability::Reliability,
};

pub(crate) type PolicyResults = [(PolicyKind, PolicyTally)];

/// A GiB for an hour, in bytes x milliseconds.
const GIB_HOUR: f64 = 1_073_741_824.0 * 3_600_000.0;

/// A retry that reserves more than this multiple of the need is too large.
const OVERSIZED_ABOVE: f64 = 1.5;

/// What a policy cost, added up over the builds that count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyCost {
    /// Number of builds that count.
    pub(crate) scored: u64,
    /// Number of builds with a first try that was too small.
    pub(crate) first_failed: u64,
    /// Number of attempts that were lost.
    pub failures: u64,
    /// Number of builds with a first retry that was large enough.
    pub(crate) sufficient_first_retries: u64,
    /// Number of builds with a first retry that was large enough and reserved at most 1.5 times the need.
    pub(crate) retry_fitted: u64,
    /// Memory reserved above the highest need, plus all that lost attempts held, GiB x h.
    pub(crate) surplus_gib_hours: f64,
    /// The highest need for the whole time of each build, GiB x h: what exact sizes would reserve.
    pub(crate) need_gib_hours: f64,
}

/// What one build cost with a policy's sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScoredBuild {
    /// Need of the build, bytes.
    pub(super) peak: f64,
    pub(super) wall_ms: f64,
    /// Memory that the successful try held, bytes.
    pub(super) held: f64,
    /// Memory that the failed tries held, bytes.
    pub(super) lost: f64,
    /// Number of failed tries.
    pub(super) failures: u64,
}

impl PolicyCost {
    pub(super) fn add(&mut self, build: ScoredBuild) {
        let ScoredBuild { peak, wall_ms, held, lost, failures } = build;
        self.scored += 1;
        self.first_failed += u64::from(failures > 0);
        self.failures += failures;
        self.sufficient_first_retries += u64::from(failures == 1);
        self.retry_fitted += u64::from(failures == 1 && held <= OVERSIZED_ABOVE * peak);
        self.surplus_gib_hours += (lost + held - peak) * wall_ms / GIB_HOUR;
        self.need_gib_hours += peak * wall_ms / GIB_HOUR;
    }

    /// Share of the builds with a first try that was too small.
    pub(crate) fn first_failed_rate(&self) -> f64 {
        share(self.first_failed, self.scored)
    }

    /// Two shares of the builds that were retried: those with a first retry that was large enough, and those
    /// with a first retry that also reserved at most 1.5 times the need.
    pub(crate) fn retry_rates(&self) -> [f64; 2] {
        [self.sufficient_first_retries, self.retry_fitted].map(|count| share(count, self.first_failed))
    }

    /// Surplus divided by need.
    pub(crate) fn surplus_over_need(&self) -> f64 {
        if self.need_gib_hours > 0.0 { self.surplus_gib_hours / self.need_gib_hours } else { 0.0 }
    }
}

/// What predicted CPU requests would cost, if a build got no more than its request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuCost {
    pub(crate) builds: u64,
    /// Cores reserved above the mean use, core hours.
    pub(crate) waste: f64,
    /// Times of all builds: as long as the work takes on the request, and as recorded.
    hours: [f64; 2],
}

impl CpuCost {
    pub(super) fn add(&mut self, cores: f64, done: &FinishedBuild) {
        let recorded = done.wall_ms / 3_600_000.0;
        let used = CpuMicros(done.cpu_usec).cores_over(Millis::from_f64(done.wall_ms)).0;
        self.builds += 1;
        self.waste += (cores - used).max(0.0) * recorded;
        let [slowed, all] = &mut self.hours;
        *slowed += recorded * (used / cores.max(f64::MIN_POSITIVE)).max(1.0);
        *all += recorded;
    }

    /// Time on the requests divided by the recorded time.
    pub(crate) fn slowdown(&self) -> f64 {
        let [slowed, all] = self.hours;
        slowed / all.max(f64::MIN_POSITIVE)
    }
}

/// How often predicted times held.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimesHeld {
    /// Number of builds within the median, and within the 95 % time.
    within: [u64; 2],
    /// For each build, the 95 % time divided by the true time.
    ratios: Vec<f64>,
}

impl TimesHeld {
    pub(super) fn add(&mut self, times: [f64; 2], wall_ms: f64) {
        for (within, time) in self.within.iter_mut().zip(times) {
            *within += u64::from(wall_ms <= time);
        }
        self.ratios.push(times[1] / wall_ms);
    }

    /// Number of builds with predicted times.
    pub(crate) fn builds(&self) -> u64 {
        u64::try_from(self.ratios.len()).unwrap_or(u64::MAX)
    }

    /// Shares of the builds within the median and within the 95 % time.
    pub(crate) fn coverage(&self) -> [f64; 2] {
        self.within.map(|within| share(within, self.builds()))
    }

    /// Median of the 95 % time divided by the true time.
    pub(crate) fn median_ratio(&self) -> f64 {
        median(self.ratios.clone())
    }
}

/// Costs of one policy, in total and by package.
#[derive(Debug, Clone, Default)]
pub struct PolicyTally {
    /// Costs of all builds.
    pub all_builds: PolicyCost,
    /// Costs of the builds of each package.
    pub packages: BTreeMap<String, PolicyCost>,
    /// How often predicted times held.
    pub(crate) times: TimesHeld,
    pub(crate) cpu: CpuCost,
    /// Nanoseconds spent in all predictions.
    pub(super) nanos: u128,
    pub(super) predictions: u64,
    /// Confidence of the predictions against what was seen.
    pub(super) reliability: Reliability,
    /// Value of the policy's setting, if it was changed.
    pub(crate) knob: Option<f64>,
}

impl PolicyTally {
    /// Compares what a policy promised with what was observed.
    pub(super) fn check(&mut self, promise: Promise, done: &FinishedBuild) {
        self.reliability.add(promise, done.peak);
        if done.wall_ms > 0.0 {
            if let Some(times) = promise.times {
                self.times.add(times, done.wall_ms);
            }
            if done.cpu_usec > 0 {
                self.cpu.add(promise.cores, done);
            }
        }
    }

    /// Mean time of a prediction, nanoseconds.
    pub(crate) fn predict_ns(&self) -> u64 {
        u64::try_from(self.nanos / u128::from(self.predictions.max(1))).unwrap_or(u64::MAX)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    let float = |count: u64| plimsoll_core::domain::Bytes(count).as_f64();
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}
