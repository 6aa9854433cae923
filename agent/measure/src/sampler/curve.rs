//! Reduces the need over the whole build to few numbers, for a chart in one line of text.

use std::time::Duration;

/// Most parts of the curve: as many as fit on a line of a terminal.
const BUCKETS: usize = 120;
/// Width of a part at the start: the interval of the first readings. It doubles when all parts are in use.
const FIRST_WIDTH: Duration = Duration::from_millis(50);

/// The highest need in each of at most [`BUCKETS`] equal parts of the time since the start.
#[derive(Debug)]
pub(super) struct NeedCurve {
    width: Duration,
    /// Highest need in each part; `None` if nothing was read in it.
    buckets: Vec<Option<u64>>,
}

impl NeedCurve {
    pub(super) fn new() -> Self {
        Self { width: FIRST_WIDTH, buckets: Vec::with_capacity(BUCKETS) }
    }

    /// Adds a need, `elapsed` after the start.
    pub(super) fn add(&mut self, elapsed: Duration, need: u64) {
        let mut bucket = self.bucket(elapsed);
        while bucket >= BUCKETS {
            self.halve();
            bucket = self.bucket(elapsed);
        }
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, None);
        }
        if let Some(highest) = self.buckets.get_mut(bucket) {
            *highest = (*highest).max(Some(need));
        }
    }

    fn bucket(&self, elapsed: Duration) -> usize {
        usize::try_from(elapsed.as_nanos() / self.width.as_nanos().max(1)).unwrap_or(usize::MAX)
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        for index in 0..self.buckets.len().div_ceil(2) {
            let pair = self.buckets.iter().skip(index * 2).take(2);
            let highest = pair.copied().max().flatten();
            if let Some(bucket) = self.buckets.get_mut(index) {
                *bucket = highest;
            }
        }
        self.buckets.truncate(self.buckets.len().div_ceil(2));
    }

    /// The whole curve. A part without a reading repeats the value of the part before.
    pub(super) fn finish(self) -> Vec<u64> {
        let mut last = 0;
        let filled = self.buckets.into_iter().map(|highest| {
            last = highest.unwrap_or(last);
            last
        });
        filled.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_curve_is_bounded_and_keeps_its_peak() {
        for hours in [0, 1, 500] {
            let mut curve = NeedCurve::new();
            let readings = 100 + hours * 36_000;
            let peak = readings * 3 / 4;
            (0..readings)
                .for_each(|reading| curve.add(MS(reading * 100), 100 + 800 * u64::from(reading == peak)));
            let curve = curve.finish();
            assert!((60..=BUCKETS).contains(&curve.len()), "{}", curve.len());
            let peak = curve.iter().position(|&need| need == 900).unwrap();
            assert!((70..=80).contains(&(peak * 100 / curve.len())), "{peak} of {}", curve.len());
            assert_eq!(curve.iter().filter(|&&need| need == 100).count(), curve.len() - 1);
        }
    }

    #[test]
    fn a_gap_goes_on_as_it_was() {
        let mut curve = NeedCurve::new();
        curve.add(MS(0), 5);
        curve.add(MS(160), 7);
        assert_eq!(curve.finish(), [5, 5, 5, 7]);
        let mut far = NeedCurve::new();
        far.add(Duration::MAX, 3);
        assert_eq!(far.finish().last(), Some(&3));
    }
}
