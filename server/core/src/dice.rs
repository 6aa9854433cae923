//! Numbers without a pattern for tests of statistics.

/// The same numbers in every run (Knuth's multiplier of MMIX; the upper bits).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// 0 to 1.
    pub(crate) fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// Around 0 with a deviation of 1: twelve even ones.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.even()).sum::<f64>() - 6.0
    }

    /// With a mean of 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.even().max(1e-9).ln()
    }
}
