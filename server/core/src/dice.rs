//! Pseudo-random numbers for tests of statistics.

/// A generator with a seed, which gives the same numbers in every run (Knuth's multiplier for MMIX, upper bits of the product).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number from 0 to 1, uniformly distributed.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// A normally distributed number with mean 0 and standard deviation 1: the sum of twelve uniform ones.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// An exponentially distributed number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().max(1e-9).ln()
    }
}
