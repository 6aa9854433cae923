//! Quantiles of CPU and time. The result is a value that an attempt had, or the operator's default, never a step of a grid: ten builds that
//! took ten minutes give exactly ten minutes, unless the whole fleet became slower or faster, or some of its newest builds ended late.
//!
//! Memory is different (see `distribution`): it must suffice for values that were not observed yet.

use super::{
    known::{self, KnownValues},
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Rung, deviation_of_times};

/// One value to choose a quantile from: that of an attempt, or the default.
#[derive(Debug, Clone, Copy)]
struct RateValue<'p, 'h> {
    /// The value's logarithm to base 2.
    log: f64,
    weight: f64,
    /// The attempt that had this value; `None` for the operator's default.
    used: Option<&'p WeightedAttempt<'h>>,
}

/// The values of one quantity, smallest first, with the confidence in them.
#[derive(Debug)]
pub(super) struct RateValues<'p, 'h> {
    values: Vec<RateValue<'p, 'h>>,
    pub(super) attempts: u32,
    /// As [`KnownValues::confidence`].
    pub(super) known: Option<(Rung, f64)>,
    /// Probability that the next value is unlike the observed ones; 1 without attempts.
    unseen: f64,
}

/// The value at a quantile, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateQuantile<'p, 'h> {
    pub(super) value: f64,
    /// The attempt that had this value; `None` if it is the operator's default.
    pub(super) used: Option<&'p WeightedAttempt<'h>>,
    /// Estimated share of builds that need no more.
    pub(super) share: f64,
}

/// Whether the operator's default counts as one more value, in addition to the values of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultCounts {
    /// The default gets the share of the weight that attempts leave, so it counts while there are few of them.
    AmongFew,
    /// The default counts only while no attempt of the package has a value.
    Alone,
}

impl<'p, 'h> RateValues<'p, 'h> {
    /// Collects `log` of each attempt, a logarithm to base 2 (non-finite values are skipped), and the operator's `default`.
    pub(super) fn of(
        similar: &'p SimilarAttempts<'h>,
        log: impl Fn(&WeightedAttempt<'_>) -> f64,
        default: f64,
        counts: DefaultCounts,
    ) -> Self {
        let finite = similar.attempts.iter().map(|used| (used, log(used))).filter(|(_, log)| log.is_finite());
        let telling: Vec<_> = finite.collect();
        let KnownValues { confidence: known, weights, unknown: unseen } = known::of_values(&telling);
        let value = |((used, log), weight)| RateValue { log, weight, used: Some(used) };
        let mut values: Vec<RateValue<'_, '_>> = telling.into_iter().zip(weights).map(value).collect();
        let of_package = |value: &RateValue<'_, '_>| value.used.is_some_and(|used| used.rung.is_of_build());
        let alone = counts == DefaultCounts::Alone && values.iter().any(of_package);
        let attempts = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let weight: f64 = values.iter().map(|value| value.weight).sum();
        let left = if alone { 0.0 } else { unseen };
        for value in &mut values {
            value.weight *= (1.0 - left) / weight.max(f64::MIN_POSITIVE);
        }
        if left > 0.0 {
            values.push(RateValue { log: default.max(1.0).log2(), weight: left, used: None });
        }
        values.sort_by(|a, b| a.log.total_cmp(&b.log));
        Self { values, attempts, known, unseen }
    }

    /// How much the times of the attempts differ, octaves.
    pub(super) fn deviation(&self) -> f64 {
        let of_attempts = self.values.iter().filter(|value| value.used.is_some());
        deviation_of_times(&of_attempts.map(|value| (value.log, value.weight)).collect::<Vec<_>>())
    }

    /// The smallest value that covers `share` of the weight; the default if nothing is known.
    pub(super) fn quantile(&self, share: f64, default: f64) -> RateQuantile<'p, 'h> {
        let mut covered = 0.0;
        let mut found = None;
        for value in &self.values {
            covered += value.weight;
            found = Some(value);
            // the tolerance absorbs the rounding of summed shares
            if covered >= share - 1e-9 {
                break;
            }
        }
        match found {
            Some(RateValue { log, used: Some(used), .. }) => {
                let same = self.values.iter().filter(|other| other.used.is_some() && other.log <= *log);
                let seen: f64 =
                    self.values.iter().filter(|other| other.used.is_some()).map(|other| other.weight).sum();
                let below: f64 = same.map(|other| other.weight).sum();
                let share = below / seen.max(f64::MIN_POSITIVE) * (1.0 - self.unseen);
                RateQuantile { value: log.exp2(), used: Some(used), share: share.clamp(0.0, 1.0) }
            }
            // the operator's default is returned as configured, because its logarithm is rounded
            _ => RateQuantile { value: default, used: None, share: 0.0 },
        }
    }
}
