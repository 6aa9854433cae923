//! The times of samples as a grid of even ticks, and what each is off it.
//!
//! An agent means to sample at whole multiples of its interval and comes a few milliseconds late. What is stored is the interval, which
//! ticks have no sample, and how late each one was. Lossless for any times: all arithmetic wraps.

use super::bytes::zigzag;

/// Even ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// Time of the first tick, ms.
    pub(super) origin: u64,
    /// From tick to tick, ms; at least 1.
    pub(super) period: u64,
}

/// Where each sample is on a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Ticks between a sample and the one before it; the tick before the first one is -1.
    pub(super) skipped: Vec<i64>,
    /// From its tick to the sample, ms.
    pub(super) late: Vec<i64>,
}

impl Grid {
    /// The grid that fits these times best, among those of the middle step.
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

    /// Where `times` are on it.
    pub(super) fn ticks(self, times: &[u64]) -> Ticks {
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
        Ticks { skipped, late }
    }

    /// Undoes [`Self::ticks`].
    pub(super) fn times(self, ticks: &Ticks) -> Vec<u64> {
        let mut next = 0_u64;
        let time = |(skipped, late): (&i64, &i64)| {
            let tick = next.wrapping_add(skipped.cast_unsigned());
            next = tick.wrapping_add(1);
            self.origin.wrapping_add(tick.wrapping_mul(self.period)).wrapping_add(late.cast_unsigned())
        };
        ticks.skipped.iter().zip(&ticks.late).map(time).collect()
    }

    /// Bits of what is off it.
    fn cost(self, times: &[u64]) -> u64 {
        let Ticks { skipped, late } = self.ticks(times);
        let off = skipped.iter().chain(&late);
        off.map(|number| u64::from(u64::BITS - zigzag(*number).leading_zeros())).sum()
    }
}

/// The number with this many digits and then zeros that is nearest: 1003 becomes 1000.
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
                prop_assert_eq!(&grid.times(&grid.ticks(&times)), &times);
            }
        }
    }

    #[test]
    fn a_clock_that_ticks_late_is_the_interval_and_how_late() {
        let late = [30, 0, 8, 1, 0, 12, 4].repeat(5);
        let times: Vec<u64> = (1..).zip(&late).map(|(n, late)| n * 1000 + late).collect();
        let grid = Grid::of(&times);
        assert_eq!((grid.origin, grid.period), (1000, 1000));
        let late = late.into_iter().map(u64::cast_signed).collect();
        assert_eq!(grid.ticks(&times), Ticks { skipped: vec![0; 35], late });
    }

    #[test]
    fn a_gap_and_a_faster_beginning_are_skipped_ticks() {
        let times = [50, 100, 150, 1000, 2000, 3000, 9000, 10_000];
        let grid = Grid::of(&times);
        assert_eq!((grid.period, grid.times(&grid.ticks(&times))), (1000, times.to_vec()));
        assert_eq!(grid.ticks(&times).skipped.iter().filter(|skipped| **skipped == 5).count(), 1);
    }
}
