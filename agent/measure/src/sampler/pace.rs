//! Decides when to take a reading, and when the readings are combined to a sample.
//!
//! A build of two seconds must have a series, so at first every reading is a sample. After that, memory is read ten times a second, because
//! one reading a second would often miss a peak of 0.3 s, and a sample is made once in each configured interval. A missed reading leaves a
//! gap and is not repeated.

use std::time::Duration;

/// Interval of readings until [`FIRST_UNTIL`]. Until then every reading is a sample.
const FIRST_STEP: Duration = Duration::from_millis(50);
const FIRST_UNTIL: Duration = Duration::from_secs(2);
/// Interval of readings after [`FIRST_UNTIL`]: a peak of 250 ms is read twice.
const READ_STEP: Duration = Duration::from_millis(100);
/// Shortest interval of samples, whatever is configured, so that the agent uses little of the machine.
const SHORTEST_STEP: Duration = Duration::from_millis(10);
/// Reading all processes costs more if there are more of them. After such a reading the agent pauses for this many times the CPU time that
/// it took, so that it uses 1 % of one core.
const REST_FACTOR: u32 = 99;

/// Which counters to read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueReading {
    /// Only memory.
    Size,
    /// All counters, because the sample is complete.
    Row,
}

/// The times of the readings of one build, counted from its start.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    next_reading: Duration,
    row_end: Duration,
}

impl Pace {
    /// Creates the schedule for a sample every `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        let interval = interval.max(SHORTEST_STEP);
        let first = interval.min(FIRST_STEP);
        Self { interval, next_reading: first, row_end: first }
    }

    /// The time of the next reading.
    pub(super) fn next(&self) -> Duration {
        self.next_reading
    }

    /// Which counters are due at `now` (`None`: none are); schedules the next reading.
    pub(super) fn take(&mut self, now: Duration) -> Option<DueReading> {
        if now < self.next_reading {
            return None;
        }
        let young = self.next_reading < FIRST_UNTIL;
        let due = if now >= self.row_end { DueReading::Row } else { DueReading::Size };
        if due == DueReading::Row {
            let row = if young { self.interval.min(FIRST_STEP) } else { self.interval };
            self.row_end = next_after(self.row_end, row, now);
        }
        let step = self.interval.min(if young { FIRST_STEP } else { READ_STEP });
        self.next_reading = next_after(self.next_reading, step, now).min(self.row_end);
        Some(due)
    }

    /// Pauses after a reading of all processes, which took `cost` of CPU time and ended at `now`.
    pub(super) fn pause_after(&mut self, now: Duration, cost: Duration) {
        self.next_reading = self.next_reading.max(now.saturating_add(cost.saturating_mul(REST_FACTOR)));
    }
}

/// The first time after `now` in the sequence `due`, `due + step`, `due + 2 * step`, ...
fn next_after(due: Duration, step: Duration, now: Duration) -> Duration {
    let missed = now.saturating_sub(due).as_nanos() / step.as_nanos().max(1);
    let missed = u32::try_from(missed).unwrap_or(u32::MAX - 1);
    due.saturating_add(step.saturating_mul(missed + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Milliseconds of all readings until `until`, and of those that end a row.
    fn plan(interval: Duration, until: u64) -> (Vec<u128>, Vec<u128>) {
        let mut pace = Pace::new(interval);
        let (mut readings, mut rows) = (Vec::new(), Vec::new());
        while pace.next() <= MS(until) {
            let now = pace.next();
            readings.push(now.as_millis());
            if pace.take(now) == Some(DueReading::Row) {
                rows.push(now.as_millis());
            }
        }
        (readings, rows)
    }

    #[test]
    fn young_builds_are_read_more_often() {
        let (readings, rows) = plan(MS(1000), 4000);
        assert_eq!(readings[..40], rows[..40]);
        assert_eq!(readings[38..42], [1950, 2000, 2100, 2200]);
        assert_eq!(rows[39..], [2000, 3000, 4000]);
        assert_eq!(readings.len(), 40 + 20);
    }

    #[test]
    fn the_requested_interval_applies_after_startup() {
        let (readings, rows) = plan(MS(20), 4000);
        assert_eq!((readings.len(), rows.len()), (200, 200));
        assert_eq!(plan(MS(100), 4000).0, plan(MS(100), 4000).1);
        assert_eq!(plan(Duration::ZERO, 1000).0.len(), 100);
        let (readings, rows) = plan(MS(60_000), 62_000);
        assert_eq!((readings.len(), rows.len()), (40 + 600, 41));
    }

    #[test]
    fn missed_moments_are_gaps() {
        let mut pace = Pace::new(MS(1000));
        assert_eq!(pace.take(MS(49)), None);
        assert_eq!(pace.take(MS(349)), Some(DueReading::Row));
        assert_eq!(pace.next(), MS(350));
        assert_eq!(pace.take(MS(7777)), Some(DueReading::Row));
        assert_eq!((pace.next(), pace.take(MS(7777))), (MS(7800), None));
        assert!(next_after(MS(50), Duration::from_nanos(1), Duration::from_secs(1 << 40)) > MS(50));
    }

    #[test]
    fn costly_readings_are_followed_by_proportional_pauses() {
        let mut pace = Pace::new(MS(1000));
        pace.take(MS(50));
        pace.pause_after(MS(60), Duration::from_micros(10));
        assert_eq!(pace.next(), MS(100), "a cheap one is not");
        pace.pause_after(MS(60), MS(300));
        assert_eq!(pace.next(), MS(29_760));
        assert_eq!(pace.take(MS(29_760)), Some(DueReading::Row));
    }
}
