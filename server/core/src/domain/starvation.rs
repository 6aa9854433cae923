//! How long a build has been starved, from the counter of its starved time.

use super::Millis;

/// A period of starvation ends only after this long without an increase: a build at its limit makes progress now and then.
const LONGEST_BREAK: Millis = Millis(30_000);

/// The newest period in which an attempt was starved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Starvation {
    /// Whether the attempt is starved now: its counter grew with the last sample.
    pub is_starved_now: bool,
    /// Value of the counter at the start of the period.
    began_at_counter: Millis,
    /// Value of the counter at the last reading; 0 at the start of the attempt.
    counter: Option<Millis>,
    /// Time at which the counter last grew; `None` if it never did.
    last_grew: Option<Millis>,
}

impl Starvation {
    /// Adds the counter's value at `elapsed`; the value is `None` if it was not read.
    pub(super) fn add(&mut self, counter: Option<Millis>, elapsed: Millis, first: bool) {
        // the counter starts from 0 with the attempt
        let before = if first { Some(Millis(0)) } else { self.counter };
        self.is_starved_now = match (counter, before) {
            (Some(counter), Some(before)) => counter > before,
            _ => false,
        };
        if self.is_starved_now {
            if !self.lasts_until(elapsed) {
                self.began_at_counter = before.unwrap_or_default();
            }
            self.last_grew = Some(elapsed);
        }
        self.counter = counter;
    }

    /// Length of the period if it lasts until the attempt's end. After `wall` the counter has the value `counter`.
    pub(super) fn at_end(&self, counter: Millis, wall: Millis) -> Millis {
        if self.lasts_until(wall) { counter.saturating_sub(self.began_at_counter) } else { Millis(0) }
    }

    fn lasts_until(&self, elapsed: Millis) -> bool {
        self.last_grew.is_some_and(|grew| elapsed.saturating_sub(grew) <= LONGEST_BREAK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes in pairs of seconds: when, and the counter then.
    fn after(rows: &[(u64, Option<u64>)]) -> Starvation {
        let mut starvation = Starvation::default();
        for (index, (elapsed, counter)) in rows.iter().enumerate() {
            starvation.add(counter.map(|s| Millis(s * 1000)), Millis(elapsed * 1000), index == 0);
        }
        starvation
    }

    #[test]
    fn starvation_is_current_if_its_counter_just_grew() {
        assert!(after(&[(1, Some(0)), (2, Some(1))]).is_starved_now);
        assert!(after(&[(1, Some(1))]).is_starved_now, "counters start from 0");
        for rows in [&[(1, Some(0)), (2, Some(1)), (3, Some(1))], &[(1, None), (2, None), (3, Some(7))]] {
            assert!(!after(rows).is_starved_now, "{rows:?}");
        }
    }

    #[test]
    fn only_the_last_stretch_counts_at_the_end() {
        let at_end = |rows: &[(u64, Option<u64>)], counter: u64, wall: u64| {
            after(rows).at_end(Millis(counter * 1000), Millis(wall * 1000)).0 / 1000
        };
        let early = [(100, Some(50)), (200, Some(50))];
        assert_eq!(at_end(&early, 50, 201), 0, "it starved, and then went on");
        let late = [(100, Some(50)), (200, Some(50)), (210, Some(60)), (220, Some(60)), (240, Some(70))];
        assert_eq!(at_end(&late, 70, 241), 20, "a short break does not end it");
        assert_eq!(at_end(&late, 75, 245), 25, "counters read after the end go on from the last sample");
        assert_eq!(at_end(&[], 0, 10), 0);
    }
}
