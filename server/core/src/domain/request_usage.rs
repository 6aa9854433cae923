//! Computes how much of a reservation was used and wasted, in one place for statistics, lists and metrics.

/// A reservation of memory or CPU, multiplied by the time of the attempt. `used + wasted == asked`, always.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestUsage {
    /// Reserved amount multiplied by the time of the attempt.
    pub asked: f64,
    /// The part that was used: at most the reservation, and 0 if the attempt did not succeed.
    pub used: f64,
    /// The part that was not used.
    pub wasted: f64,
}

impl RequestUsage {
    /// Computes the parts. `None` if the attempt reserved nothing (or 0), or if its use was not measured: it is then left out of sums.
    pub fn of(asked: Option<f64>, used: Option<f64>, succeeded: bool) -> Option<Self> {
        let (asked, measured) = (asked.filter(|asked| *asked > 0.0)?, used?);
        let used = if succeeded { measured.clamp(0.0, asked) } else { 0.0 };
        Some(Self { asked, used, wasted: asked - used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_was_used_or_wasted() {
        let of = |asked, used, succeeded| {
            RequestUsage::of(Some(asked), Some(used), succeeded).map(|ask| (ask.asked, ask.used, ask.wasted))
        };
        assert_eq!(of(4.0, 1.0, true), Some((4.0, 1.0, 3.0)));
        assert_eq!(of(4.0, 5.0, true), Some((4.0, 4.0, 0.0)), "more than the request was used");
        assert_eq!(of(4.0, 1.0, false), Some((4.0, 0.0, 4.0)), "a failure has no use");
        assert_eq!(of(1e-9, 1.0, true), Some((1e-9, 1e-9, 0.0)), "one byte is asked for");
    }

    #[test]
    fn unmeasured_usage_is_neither_used_nor_wasted() {
        assert_eq!(RequestUsage::of(None, Some(1.0), true), None);
        assert_eq!(RequestUsage::of(Some(1.0), None, false), None);
        assert_eq!(RequestUsage::of(Some(0.0), Some(1.0), true), None, "an ask of 0 is none");
    }
}
