//! Times of samples, stored as a grid of even ticks and each sample's deviation from it.
//!
//! An agent samples at multiples of its interval, a few milliseconds late. The store keeps the interval, the
//! number of skipped ticks, and how late each sample is. Lossless for any times: all arithmetic wraps.

use super::bytes::zigzag;

/// A sequence of ticks at even intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// Time of the first tick, ms.
    pub(super) origin: u64,
    /// Interval between ticks, ms; at least 1.
    pub(super) period: u64,
}

/// Positions of samples relative to a [`Grid`]; each list has one number for each sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SamplePositions {
    /// Number of ticks between a sample's tick and the tick of the sample before; the first sample counts from
    /// tick -1.
    pub(super) skipped: Vec<i64>,
    /// Time from a sample's tick to the sample, ms.
    pub(super) late: Vec<i64>,
}

impl Grid {
    /// Chooses the grid that needs the fewest bits for these times. It tries the median interval, exact and
    /// rounded to one and two digits.
    pub(super) fn of(times: &[u64]) -> Self {
        let first = times.first().copied().unwrap_or_default();
        let mut steps: Vec<u64> =
            times.iter().zip(times.iter().skip(1)).map(|(a, b)| b.wrapping_sub(*a)).collect();
        let middle = steps.len() / 2;
        let middle = if steps.is_empty() { 1 } else { *steps.select_nth_unstable(middle).1 };
        let periods = [rounded(middle, 1), rounded(middle, 2), middle].map(|period| period.max(1));
        let grids =
            periods.iter().flat_map(|period| [first / period * period, first].map(|at| (at, *period)));
        let grids = grids.map(|(origin, period)| Self { origin, period });
        grids.min_by_key(|grid| grid.cost(times)).unwrap_or(Self { origin: first, period: 1 })
    }

    /// The positions of samples taken at `times`.
    pub(super) fn positions(self, times: &[u64]) -> SamplePositions {
        let (mut skipped, mut late) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
        let mut next = 0_u64;
        for time in times {
            let since = time.wrapping_sub(self.origin);
            let period = self.period.max(1);
            let tick = (since / period).wrapping_add(u64::from(since % period >= period.div_ceil(2)));
            skipped.push(tick.wrapping_sub(next).cast_signed());
            late.push(since.wrapping_sub(tick.wrapping_mul(self.period)).cast_signed());
            next = tick.wrapping_add(1);
        }
        SamplePositions { skipped, late }
    }

    /// Reverses [`Self::positions`].
    pub(super) fn times(self, positions: &SamplePositions) -> Vec<u64> {
        let mut next = 0_u64;
        let time = |(skipped, late): (&i64, &i64)| {
            let tick = next.wrapping_add(skipped.cast_unsigned());
            next = tick.wrapping_add(1);
            self.origin.wrapping_add(tick.wrapping_mul(self.period)).wrapping_add(late.cast_unsigned())
        };
        positions.skipped.iter().zip(&positions.late).map(time).collect()
    }

    /// Approximate number of bits that the positions of `times` need on this grid.
    fn cost(self, times: &[u64]) -> u64 {
        let SamplePositions { skipped, late } = self.positions(times);
        let off = skipped.iter().chain(&late);
        off.map(|number| u64::from(u64::BITS - zigzag(*number).leading_zeros())).sum()
    }
}

/// Rounds to this many significant digits: 1003 becomes 1000.
fn rounded(number: u64, digits: u32) -> u64 {
    let all = number.checked_ilog10().map_or(1, |log| log + 1);
    let scale = 10_u64.pow(all.saturating_sub(digits));
    number.saturating_add(scale / 2) / scale * scale
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn every_time_comes_back(
            times in vec(prop_oneof![any::<u64>(), 0..1_u64 << 40, Just(u64::MAX)], 0..50),
            origin in any::<u64>(), period in any::<u64>(),
        ) {
            for grid in [Grid::of(&times), Grid { origin, period }] {
                prop_assert_eq!(&grid.times(&grid.positions(&times)), &times);
            }
        }
    }

    #[test]
    fn late_ticks_are_stored_as_interval_plus_lateness() {
        let late = [30, 0, 8, 1, 0, 12, 4].repeat(5);
        let times: Vec<u64> = (1..).zip(&late).map(|(n, late)| n * 1000 + late).collect();
        let grid = Grid::of(&times);
        assert_eq!((grid.origin, grid.period), (1000, 1000));
        let late = late.into_iter().map(u64::cast_signed).collect();
        assert_eq!(grid.positions(&times), SamplePositions { skipped: vec![0; 35], late });
    }

    #[test]
    fn gaps_and_a_faster_start_become_skipped_ticks() {
        let times = [50, 100, 150, 1000, 2000, 3000, 9000, 10_000];
        let grid = Grid::of(&times);
        assert_eq!((grid.period, grid.times(&grid.positions(&times))), (1000, times.to_vec()));
        assert_eq!(grid.positions(&times).skipped.iter().filter(|skipped| **skipped == 5).count(), 1);
    }
}
