//! Counters as the wire wants them: since the start of the attempt, and never going back, whatever the kernel says.

use plimsoll_proto::v1::{OomOrigin, Sample, Totals};

use crate::meter::{Reading, Size};

/// Percent of its own limit that a build needs at least if that limit killed. The kernel kills when reclaim in all of the group finds
/// nothing more to give; what is left besides the need are pages that it is just writing or reading, and its own batches.
const KILLED_NEED_PERCENT: u64 = 95;

/// What was counted so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Before the start.
    before: Reading,
    /// At the last reading.
    latest: Reading,
    need_peak: Option<u64>,
    cpu_usec: u64,
    memory_peak: Option<u64>,
    oom_kill: Option<u64>,
    oom_group_kill: Option<u64>,
    oom_origin: OomOrigin,
    reclaim_failures: Option<u64>,
    memory_stall_usec: Option<u64>,
    refaults: Option<u64>,
    throttled_usec: Option<u64>,
}

impl Counters {
    /// Counts from what there was `before` the start.
    pub(super) fn new(before: Reading) -> Self {
        Self { before, latest: before, ..Self::default() }
    }

    /// Takes in a need that was read.
    pub(super) fn add_need(&mut self, need: u64) {
        self.need_peak = self.need_peak.max(Some(need));
    }

    /// Takes in a whole reading. Says whether the kernel has killed since the last one.
    pub(super) fn add(&mut self, reading: &Reading) -> bool {
        self.add_need(reading.need);
        let before = self.before;
        self.cpu_usec = self.cpu_usec.max(reading.cpu_usec.saturating_sub(before.cpu_usec));
        let kills = self.oom_kill;
        for (count, now, then) in [
            (&mut self.oom_kill, reading.oom_kill, before.oom_kill),
            (&mut self.oom_group_kill, reading.oom_group_kill, before.oom_group_kill),
            (&mut self.reclaim_failures, reading.reclaim_failures, before.reclaim_failures),
            (&mut self.memory_stall_usec, reading.memory_stall_usec, before.memory_stall_usec),
            (&mut self.refaults, reading.refaults, before.refaults),
            (&mut self.throttled_usec, reading.throttled_usec, before.throttled_usec),
        ] {
            *count = (*count).max(now.map(|now| now.saturating_sub(then.unwrap_or(0))));
        }
        // in a shared group the mark may be older than the build; once it grows, it is the build's
        let grown = reading.memory_peak.filter(|&mark| Some(mark) > before.memory_peak);
        self.memory_peak = self.memory_peak.max(grown);
        let killed = self.oom_kill.unwrap_or(0) > kills.unwrap_or(0);
        if killed && self.oom_origin == OomOrigin::Unspecified {
            // the moment tells most: at another one a harmless failure at another limit may have been counted
            self.oom_origin = match origin(&self.latest, reading) {
                OomOrigin::Unspecified | OomOrigin::Host => origin(&before, reading),
                known => known,
            };
        }
        self.latest = *reading;
        killed
    }

    /// What a build that was killed needed at least, bytes; `None` if the kill does not tell. No reading may have come between a fast
    /// growth and the kill, but usage then stood at `limit`, the one in force, or the kernel would not have killed. A kill below a
    /// smaller limit in a group that the build made itself tells nothing of the whole, and neither does a limit that others share.
    pub(super) fn need_at_kill(&self, limit: u64) -> Option<u64> {
        let shared = self.latest.failures_above.is_some();
        let reached = self.latest.memory_peak.is_some_and(|mark| mark >= killed_need(limit));
        (self.oom_origin == OomOrigin::OwnLimit && reached && !shared).then(|| killed_need(limit))
    }

    /// CPU time since the start, microseconds.
    pub(super) fn cpu_usec(&self) -> u64 {
        self.cpu_usec
    }

    /// Processes killed since the start.
    pub(super) fn oom_kill(&self) -> Option<u64> {
        self.oom_kill
    }

    /// Whose limit made the kernel kill.
    pub(super) fn oom_origin(&self) -> OomOrigin {
        self.oom_origin
    }

    /// A sample with the counters of now.
    pub(super) fn sample(
        &self,
        elapsed_ms: u64,
        size: Size,
        need_max: Option<u64>,
        starved: Option<u64>,
    ) -> Sample {
        Sample {
            elapsed_ms,
            memory_bytes: size.memory,
            need_bytes: size.need,
            memory_peak_bytes: self.memory_peak,
            cpu_usec: self.cpu_usec,
            oom_kill: self.oom_kill,
            reclaim_failures: self.reclaim_failures,
            need_max_bytes: need_max,
            memory_stall_usec: self.memory_stall_usec,
            refaults: self.refaults,
            throttled_usec: self.throttled_usec,
            starved_ms: starved,
        }
    }

    /// The counters of now, for the end.
    pub(super) fn totals(&self, starved: Option<u64>) -> Totals {
        Totals {
            cpu_usec: self.cpu_usec,
            memory_peak_bytes: self.memory_peak,
            oom_kill: self.oom_kill,
            reclaim_failures: self.reclaim_failures,
            need_peak_bytes: self.need_peak,
            oom_origin: self.oom_origin.into(),
            oom_group_kill: self.oom_group_kill,
            memory_stall_usec: self.memory_stall_usec,
            refaults: self.refaults,
            throttled_usec: self.throttled_usec,
            starved_ms: starved,
        }
    }
}

fn killed_need(limit: u64) -> u64 {
    u64::try_from(u128::from(limit) * u128::from(KILLED_NEED_PERCENT) / 100).unwrap_or(limit)
}

/// Whose limit made the kernel kill between two readings. A kill that no limit counts was for want of memory of the machine, if
/// all limits can be seen.
fn origin(from: &Reading, to: &Reading) -> OomOrigin {
    let grown = |to: Option<u64>, from: Option<u64>| to.map(|to| to > from.unwrap_or(0));
    let own = grown(to.limit_hits, from.limit_hits);
    let above = grown(to.limit_hits_above, from.limit_hits_above);
    match (own, above) {
        (Some(true), _above) => OomOrigin::OwnLimit,
        (_own, Some(true)) => OomOrigin::LimitAbove,
        (Some(false), Some(false)) if to.sees_all_limits => OomOrigin::Host,
        _unseen => OomOrigin::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { memory: 300, need: 200 };

    #[test]
    fn nothing_that_leaves_goes_back() {
        let before = Reading {
            cpu_usec: 1000,
            oom_kill: Some(4),
            memory_peak: Some(500),
            reclaim_failures: Some(10),
            refaults: Some(70),
            throttled_usec: Some(8),
            ..Reading::default()
        };
        let mut counters = Counters::new(before);
        let first = Reading {
            need: 200,
            cpu_usec: 1700,
            oom_kill: Some(5),
            reclaim_failures: Some(12),
            refaults: Some(71),
            throttled_usec: Some(9),
            ..before
        };
        assert!(counters.add(&first));
        let sample = counters.sample(50, SIZE, None, None);
        assert_eq!((sample.cpu_usec, sample.oom_kill, sample.reclaim_failures), (700, Some(1), Some(2)));
        assert_eq!((sample.refaults, sample.throttled_usec), (Some(1), Some(1)));
        assert_eq!(sample.memory_peak_bytes, None, "a mark from before the start says nothing");
        let back = Reading { memory_peak: Some(700), need: 100, oom_kill: Some(0), ..Reading::default() };
        assert!(!counters.add(&back));
        let again = counters.sample(51, SIZE, None, None);
        assert_eq!(again, Sample { elapsed_ms: 51, memory_peak_bytes: Some(700), ..sample });
        counters.add_need(900);
        assert_eq!(counters.totals(None).need_peak_bytes, Some(900));
    }

    /// Kills counted, hits of the own limit and of those above, and whether these are all.
    fn reading(kills: u64, own: Option<u64>, above: Option<u64>, all: bool) -> Reading {
        Reading {
            oom_kill: Some(kills),
            limit_hits: own,
            limit_hits_above: above,
            sees_all_limits: all,
            ..Reading::default()
        }
    }

    #[test]
    fn the_limit_that_was_hit_is_the_one_that_killed() {
        use OomOrigin::{Host, LimitAbove, OwnLimit, Unspecified};
        let before = reading(7, Some(3), Some(40), true);
        for (after, expected) in [
            (reading(8, Some(4), Some(40), true), OwnLimit),
            (reading(8, Some(3), Some(41), true), LimitAbove),
            (reading(8, Some(3), Some(40), true), Host),
            (reading(8, Some(3), Some(40), false), Unspecified),
            (reading(8, Some(3), None, true), Unspecified),
            (reading(8, None, Some(40), true), Unspecified),
            (reading(7, Some(4), Some(41), true), Unspecified),
        ] {
            let mut counters = Counters::new(before);
            counters.add(&after);
            assert_eq!(counters.totals(None).oom_origin, i32::from(expected), "{after:?}");
        }
    }

    #[test]
    fn a_kill_at_the_own_limit_says_what_was_needed_at_least_and_other_kills_do_not() {
        let before = reading(0, Some(0), Some(0), true);
        let at = |mark, after| {
            let mut counters = Counters::new(before);
            counters.add(&Reading { memory_peak: mark, ..after });
            counters.need_at_kill(1000)
        };
        let own = reading(1, Some(1), Some(0), true);
        assert_eq!(at(Some(1000), own), Some(950));
        assert_eq!(at(Some(900), own), None, "the limit of a group below");
        assert_eq!(at(None, own), None);
        assert_eq!(
            at(Some(1000), Reading { failures_above: Some(1), ..own }),
            None,
            "others share the limit"
        );
        assert_eq!(at(Some(1000), reading(1, Some(0), Some(1), true)), None);
        assert_eq!(at(Some(1000), reading(0, Some(1), Some(0), true)), None, "nobody was killed");
    }

    #[test]
    fn failures_at_the_own_limit_long_before_do_not_hide_that_the_limit_above_killed() {
        let mut counters = Counters::new(reading(0, Some(0), Some(0), true));
        counters.add(&reading(0, Some(900), Some(0), true));
        counters.add(&reading(1, Some(900), Some(5), true));
        assert_eq!(counters.oom_origin(), OomOrigin::LimitAbove);
        counters.add(&reading(2, Some(950), Some(5), true));
        assert_eq!(counters.oom_origin(), OomOrigin::LimitAbove, "the first kill is what is asked for");
    }
}
