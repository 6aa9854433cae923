//! Sums over some attempts.

use crate::domain::{Brief, Bytes, Cause, Outcome};

/// Sums over some attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatsTotals {
    pub(crate) attempts: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) oom: u64,
    pub(crate) starved: u64,
    pub(crate) retries: u64,
    pub(crate) wall_hours: f64,
    pub(crate) cpu_core_hours: f64,
    /// Need over time.
    pub(crate) memory_used_gib_hours: f64,
    /// Need over time, of the attempts that asked for memory.
    pub(crate) memory_used_of_asked_gib_hours: f64,
    /// Over the attempts that asked for memory.
    pub(crate) memory_asked_gib_hours: f64,
    /// Asked and not used; for an attempt that failed, all that it held.
    pub(crate) memory_wasted_gib_hours: f64,
    pub(crate) need_peak_max: Bytes,
    pub(crate) samples: u64,
}

impl StatsTotals {
    /// Adds one attempt.
    pub(crate) fn add(&mut self, attempt: &Brief) {
        self.attempts += 1;
        match attempt.outcome {
            Outcome::Succeeded => self.succeeded += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Lost => self.lost += 1,
        }
        match attempt.cause {
            Some(Cause::Oom) => self.oom += 1,
            Some(Cause::Starved) => self.starved += 1,
            _ => {}
        }
        if attempt.number > 1 || attempt.retries.is_some() {
            self.retries += 1;
        }
        let used = attempt.need_mean.gib_hours(attempt.wall);
        self.wall_hours += attempt.wall.hours();
        self.cpu_core_hours += attempt.cpu.as_f64() / 3.6e9;
        self.memory_used_gib_hours += used;
        if let Some(asked) = attempt.memory_asked() {
            let held = asked.gib_hours(attempt.wall);
            self.memory_used_of_asked_gib_hours += used;
            self.memory_asked_gib_hours += held;
            let wasted = if attempt.outcome == Outcome::Succeeded { held - used } else { held };
            self.memory_wasted_gib_hours += wasted.max(0.0);
        }
        self.need_peak_max = self.need_peak_max.max(attempt.need_peak);
        self.samples += u64::from(attempt.samples);
    }

    /// Adds other sums.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.lost += other.lost;
        self.oom += other.oom;
        self.starved += other.starved;
        self.retries += other.retries;
        self.wall_hours += other.wall_hours;
        self.cpu_core_hours += other.cpu_core_hours;
        self.memory_used_gib_hours += other.memory_used_gib_hours;
        self.memory_used_of_asked_gib_hours += other.memory_used_of_asked_gib_hours;
        self.memory_asked_gib_hours += other.memory_asked_gib_hours;
        self.memory_wasted_gib_hours += other.memory_wasted_gib_hours;
        self.need_peak_max = self.need_peak_max.max(other.need_peak_max);
        self.samples += other.samples;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary as summary;

    #[test]
    fn the_use_of_attempts_that_asked_for_nothing_is_not_held_against_what_others_asked() {
        let mut asking = summary("1", "zlib", "1", 10);
        asking.resources.memory_request = Some(Bytes(1 << 30));
        let mut silent = asking.clone();
        (silent.resources.memory_request, silent.resources.memory_limit) = (None, None);
        let (mut totals, mut sums) = (StatsTotals::default(), StatsTotals::default());
        totals.add(&asking.into());
        totals.add(&silent.into());
        sums.merge(&totals);
        assert!(sums.memory_used_of_asked_gib_hours > 0.0);
        assert!((sums.memory_used_gib_hours - 2.0 * sums.memory_used_of_asked_gib_hours).abs() < 1e-12);
    }
}
