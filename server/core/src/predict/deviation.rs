//! How much builds of one key differ, as a logarithm to base 2.
//!
//! The observed deviation is mixed with the usual one until enough was observed (a prior that counts as some attempts, like a conjugate
//! prior of a variance): one attempt says nothing about the deviation, and five equal ones do not prove that the sixth will be equal.

use super::{similar::SimilarAttempts, split::NeedSplit};
use crate::domain::Rung;

/// A value on the logarithmic axis, with its weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedValue {
    pub(super) rung: Rung,
    pub(super) log: f64,
    pub(super) weight: f64,
    pub(super) hours: f64,
    pub(super) censored: bool,
}

/// The usual deviation, and the number of observed attempts that it weighs as much as.
#[derive(Debug, Clone, Copy)]
struct PriorDeviation {
    deviation: f64,
    attempts: f64,
}

/// Prior for builds of one key (Spack's CI: median 0.25 of the peak). Its weight is small, so that a key with repeating needs soon gets a
/// small deviation.
const ALIKE_PRIOR: PriorDeviation = PriorDeviation { deviation: 0.32, attempts: 0.1 };
/// Prior for jumps above everything observed: after one attempt the next one needs more than 1.8 times as much in one case of ten, after
/// five more than 1.1 times (replayed on Spack's CI).
const JUMP_PRIOR: PriorDeviation = PriorDeviation { deviation: 0.45, attempts: 0.5 };

/// Logarithms closer than this are equal: more than the rounding error of sums of a thousand values, and far less than the difference of
/// one byte.
const ROUNDING_ERROR: f64 = 1e-11;

/// How far the next attempt may be from the observed ones, as logarithms to base 2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deviation {
    /// Standard deviation of the next attempt, if it is like the observed ones.
    pub(super) alike: f64,
    /// Mean distance of the next attempt above everything observed, if it is not like them.
    pub(super) jump: f64,
}

impl Deviation {
    /// The deviation when no attempt is known: the priors.
    pub(super) const UNKNOWN: Self = Self { alike: ALIKE_PRIOR.deviation, jump: JUMP_PRIOR.deviation };

    /// Computes the deviation from the weighted needs. Attempts that memory stopped are ignored.
    pub(super) fn of(similar: &SimilarAttempts<'_>, points: &[WeightedValue]) -> Self {
        variance(points).map_or(Self::UNKNOWN, |variance| Self::with_prior(similar, variance))
    }

    /// The deviation within groups of need ([`NeedSplit`]): the next build belongs to one of the groups, so the distance between groups
    /// does not show how far above the highest group its need may be. `None` if there is one group.
    pub(super) fn within_groups(similar: &SimilarAttempts<'_>, points: &[WeightedValue]) -> Option<Self> {
        variance_within_groups(points).map(|variance| Self::with_prior(similar, variance))
    }

    fn with_prior(similar: &SimilarAttempts<'_>, variance: f64) -> Self {
        let attempts: f64 = similar
            .attempts
            .iter()
            .filter(|used| !used.observation.censored)
            .map(|used| used.freshness)
            .sum();
        let mixed = |usual: PriorDeviation| {
            let sum = variance * attempts + usual.deviation.powi(2) * usual.attempts;
            (sum / (attempts + usual.attempts)).sqrt()
        };
        Self { alike: mixed(ALIKE_PRIOR), jump: mixed(JUMP_PRIOR) }
    }
}

/// Weighted sums of squared distances from the mean: over all values, and over the values above the mean.
#[derive(Debug, Default)]
struct SquareSums {
    weight: f64,
    square_sum: f64,
    heavy_weight_sum: f64,
    above_mean_sum: f64,
}

/// Uncensored values of one rung with their weights, newest first.
fn uncensored_values(rung: &[WeightedValue]) -> Vec<(f64, f64)> {
    rung.iter().filter(|point| !point.censored).map(|point| (point.log, point.weight)).collect()
}

/// The smaller of the variance within rungs and the upper semivariance (Markowitz 1959), which is the mean square distance of the values
/// above the mean. Each mean is that of one rung. Distances between rungs are ignored. Values far below the mean do not show how far above
/// it the next one may be.
fn variance(points: &[WeightedValue]) -> Option<f64> {
    let mut squares = SquareSums::default();
    points.chunk_by(|a, b| a.rung == b.rung).for_each(|rung| squares.add(&uncensored_values(rung)));
    squares.variance()
}

fn variance_within_groups(points: &[WeightedValue]) -> Option<f64> {
    let (mut squares, mut grouped) = (SquareSums::default(), false);
    for rung in points.chunk_by(|a, b| a.rung == b.rung) {
        let mut uncensored_values = uncensored_values(rung);
        let oldest_first: Vec<f64> = uncensored_values.iter().rev().map(|(log, _)| *log).collect();
        match NeedSplit::of(&oldest_first) {
            None => squares.add(&uncensored_values),
            Some(split) => {
                grouped = true;
                uncensored_values.sort_by(|a, b| a.0.total_cmp(&b.0));
                let groups = uncensored_values.chunk_by(|a, b| split.group_of(a.0) == split.group_of(b.0));
                groups.for_each(|group| squares.add(group));
            }
        }
    }
    squares.variance().filter(|_| grouped)
}

impl SquareSums {
    /// Adds the squared distances of these values from their own mean.
    fn add(&mut self, values: &[(f64, f64)]) {
        let (weight, sum) =
            values.iter().fold((0.0, 0.0), |(w, s), (log, weight)| (w + weight, s + log * weight));
        let mean = sum / weight;
        self.weight += weight;
        for (log, weight) in values {
            let square = (log - mean).powi(2) * weight;
            self.square_sum += square;
            // the mean is rounded, so a single value or equal values could be slightly above it; they must not count as above
            if *log > mean + ROUNDING_ERROR {
                self.heavy_weight_sum += weight;
                self.above_mean_sum += square;
            }
        }
    }

    fn variance(&self) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let all = self.square_sum / self.weight;
        Some(if self.heavy_weight_sum > 0.0 {
            all.min(self.above_mean_sum / self.heavy_weight_sum)
        } else {
            all
        })
    }
}
