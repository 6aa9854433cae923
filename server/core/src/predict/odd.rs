//! Attempts far below all others of their package, which count only once there are more of them.

use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{AttemptId, Key, Rung};

/// Most attempts far below all others that are left out.
const MOST_ODD: usize = 2;
/// Fewest other attempts of the package beside which few are odd.
const FEWEST_OTHERS: usize = 5;
/// Distance from the lowest of the others, as a logarithm to base 2, that is far below: half of its need.
const FAR_BELOW: f64 = 1.0;

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
