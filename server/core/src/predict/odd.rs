//! Attempts far below all others of their package, which count only once there are more of them, and one far above, which says little about
//! how well the others are known.

use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{AttemptId, Key, Rung};

/// Most attempts far below all others that are left out.
const MOST_ODD: usize = 2;
/// Fewest other attempts of the package beside which few are odd.
const FEWEST_OTHERS: usize = 5;
/// Distance from the lowest of the others, as a logarithm to base 2, that is far below: half of its need.
const FAR_BELOW: f64 = 1.0;

/// The width that lowers a confidence, of `values` with at least [`FEWEST_OTHERS`] others: the highest one alone lowers it by at most a
/// third. `width`: that of the values up to a bound, where a confidence is divided by 1 plus the width.
pub(super) fn width_despite_highest(values: impl Iterator<Item = f64>, width: impl Fn(f64) -> f64) -> f64 {
    let all = width(f64::INFINITY);
    // no width is lowered below this
    if all <= 0.5 {
        return all;
    }
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.as_slice() {
        [.., second, _] if values.len() > FEWEST_OTHERS => all.min(1.5 * (1.0 + width(*second)) - 1.0),
        _ => all,
    }
}

impl SimilarAttempts<'_> {
    /// Attempts that count only once there are more of them: up to [`MOST_ODD`], beside [`FEWEST_OTHERS`] others of the package, that
    /// needed less than half of what every other one needed. They did nothing, or were another build.
    pub(super) fn odd_attempts(&self, key: &Key) -> Vec<AttemptId> {
        let of_package =
            self.attempts.iter().filter(|used| used.rung >= Rung::Package && !used.observation.censored);
        let mut lowest: Vec<&WeightedAttempt<'_>> = of_package.collect();
        // an attempt with a small input or fewer build jobs may need far less, and one after a kill shows what is enough
        let mut jobs = lowest.iter().map(|used| used.observation.jobs).filter(|jobs| *jobs > 0);
        let first = jobs.next();
        let is_stopped = |used: &WeightedAttempt<'_>| used.rung == Rung::Exact && used.observation.censored;
        if lowest.len() <= FEWEST_OTHERS
            || key.hints.input_bytes.is_some_and(|bytes| bytes > 0)
            || jobs.any(|other| Some(other) != first)
            || self.attempts.iter().any(is_stopped)
        {
            return Vec::new();
        }
        let by_need = |a: &&WeightedAttempt<'_>, b: &&WeightedAttempt<'_>| a.need.total_cmp(&b.need);
        lowest.select_nth_unstable_by(MOST_ODD, by_need);
        if let Some(first) = lowest.get_mut(..=MOST_ODD) {
            first.sort_unstable_by(by_need);
        }
        let is_far_below = |pair: &[&WeightedAttempt<'_>]| {
            pair.first().zip(pair.last()).is_some_and(|(odd, other)| odd.need < other.need - FAR_BELOW)
        };
        let most = MOST_ODD.min(lowest.len() - FEWEST_OTHERS);
        let count = (1..=most).rev().find(|count| lowest.get(count - 1..=*count).is_some_and(is_far_below));
        lowest.iter().take(count.unwrap_or(0)).map(|used| used.observation.brief.attempt.clone()).collect()
    }
}
