//! Highest need, and ratio of need to request, over several attempts. If memory stopped an attempt, its need is a lower bound, and so is a
//! maximum that comes from it.

use std::cmp::Ordering;

use crate::domain::Millis;

/// A maximum that may be a lower bound.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CensoredMax {
    pub(in crate::stats) value: f32,
    /// Whether memory stopped the attempt with the maximum.
    pub is_lower: bool,
}

impl CensoredMax {
    /// Takes the larger of both maximums. If both are equal, the lower bound is taken, because it proves that more is needed.
    pub(in crate::stats) fn merge(&mut self, other: Self) {
        match other.value.total_cmp(&self.value) {
            Ordering::Greater => *self = other,
            Ordering::Equal => self.is_lower |= other.is_lower && other.value > 0.0,
            Ordering::Less => {}
        }
    }
}

/// Ratio of highest need to requested memory, over several attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NeedToRequest {
    /// Sum of the ratios.
    sum: f64,
    /// Number of attempts.
    pub attempts: u64,
    /// The highest ratio.
    pub highest_ratio: CensoredMax,
    /// Number of attempts that memory stopped: their ratio is a lower bound.
    pub lower_bounds: u64,
    /// Number of attempts with a highest need above their request.
    pub above: u64,
}

impl NeedToRequest {
    /// Adds the ratio of one attempt.
    pub(in crate::stats) fn add(&mut self, ratio: f32, is_lower: bool) {
        self.merge(&Self {
            sum: f64::from(ratio),
            attempts: 1,
            highest_ratio: CensoredMax { value: ratio, is_lower },
            lower_bounds: u64::from(is_lower),
            above: u64::from(ratio > 1.0),
        });
    }

    pub(in crate::stats) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.attempts += other.attempts;
        self.highest_ratio.merge(other.highest_ratio);
        self.lower_bounds += other.lower_bounds;
        self.above += other.above;
    }

    /// Mean and maximum; both 0 if nothing was requested.
    pub fn mean_and_max(&self) -> (f64, f64) {
        let mean = if self.attempts == 0 { 0.0 } else { self.sum / Millis(self.attempts).as_f64() };
        (mean, f64::from(self.highest_ratio.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_censored_maximum_is_a_lower_bound() {
        let mut all = NeedToRequest::default();
        all.add(0.5, false);
        all.add(0.9, true);
        assert_eq!((all.highest_ratio.is_lower, all.lower_bounds, all.above), (true, 1, 0));
        all.add(0.9, false);
        assert!(all.highest_ratio.is_lower, "it needed more than 0.9");
        let mut more = NeedToRequest::default();
        more.add(2.0, false);
        more.add(1.5, true);
        all.merge(&more);
        assert_eq!((all.highest_ratio.is_lower, all.lower_bounds, all.above), (false, 2, 2));
        assert!((all.mean_and_max().0 - 1.16).abs() < 1e-6 && (all.mean_and_max().1 - 2.0).abs() < 1e-6);
    }
}
