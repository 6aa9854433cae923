//! Computes how many attempts would have exceeded a size, and how many of the next ones may.

use plimsoll_proto::measured;

use super::{NeedSource, WorkloadAttempt};
use crate::domain::Bytes;

/// Confidence of the upper bound: the true share is above the bound one time in twenty.
const BOUND_CONFIDENCE: f64 = 0.95;
/// Steps of the bisection: afterwards 2^-40 of the interval is left.
const BISECTION_STEPS: u32 = 40;

/// How attempts compare with a size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Risk {
    /// Number of attempts for which it is known whether they fit, trusted or not.
    pub judged: u64,
    /// Number of judged attempts with a need above the size.
    pub above: u64,
    /// Upper bound, with 95 % confidence, for the share of future attempts that exceed the size; 1 if nothing is known.
    pub at_most: f64,
}

impl Risk {
    /// Compares the needs of attempts with `size`. A need that is only a lower bound, and below `size`, is skipped.
    pub(super) fn of(attempts: &[WorkloadAttempt], size: Bytes) -> Self {
        let fitted = |attempt: &WorkloadAttempt| match (attempt.need?, attempt.source) {
            (need, NeedSource::Measured) => measured::need_fits(need.0, false, size.0),
            (need, NeedSource::Stopped) => measured::need_fits(need.0, true, size.0),
            (need, NeedSource::Incomplete) => (need > size).then_some(false),
        };
        let (mut judged, mut above) = (0, 0);
        for fitted in attempts.iter().filter_map(fitted) {
            judged += 1;
            above += u64::from(!fitted);
        }
        Self { judged, above, at_most: upper_bound(above, judged) }
    }
}

/// The exact upper bound of a share, if `above` of `judged` were observed (Clopper and Pearson 1934, one-sided): with this share, so few
/// would be observed one time in twenty.
fn upper_bound(above: u64, judged: u64) -> f64 {
    if above >= judged {
        return 1.0;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _halving in 0..BISECTION_STEPS {
        let middle = f64::midpoint(low, high);
        if at_most_seen(above, judged, middle) > 1.0 - BOUND_CONFIDENCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability of at most `seen` events in `judged` trials, each with probability `share`. Each binomial term is computed from the one
/// before, as a logarithm to avoid underflow.
fn at_most_seen(seen: u64, judged: u64, share: f64) -> f64 {
    let float = |count: u64| Bytes(count).as_f64();
    let (log_yes, log_no) = (share.ln(), (-share).ln_1p());
    let mut log_term = float(judged) * log_no;
    let mut sum = log_term.exp();
    for n in 0..seen {
        log_term += (float(judged - n) / float(n + 1)).ln() + log_yes - log_no;
        sum += log_term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_one_of_the_tables() {
        // of 0 of n it is 1 - 0.05^(1/n); of 1 of 10 and of 3 of 50 as in tables of Clopper and Pearson
        for (above, judged, bound) in
            [(0, 10, 0.258_866), (0, 100, 0.029_513), (1, 10, 0.394_163), (3, 50, 0.147_810), (10, 10, 1.0)]
        {
            let found = upper_bound(above, judged);
            assert!((found - bound).abs() < 1e-4, "{above} of {judged}: {found}");
        }
        assert_eq!(upper_bound(0, 0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn a_bound_of_very_many_attempts_is_found() {
        let found = upper_bound(5000, 1_000_000);
        assert!((0.005..0.0052).contains(&found), "{found}");
    }
}
