//! Distinguishes a build that is starved from a build that only fills its memory limit.
//!
//! A build that reads and writes files fills its group with page cache, and the kernel reclaims all the time without harm: a build with a
//! need of 1 MiB ran at full speed at a limit of 64 MiB, with 37,000 failed charges and 100,000 refaults a second, and no major fault. In a
//! starved build the kernel can reclaim little but the code of its programs, and the build waits until that code is read from the disk
//! again.
//!
//! On v2 a second kind of starved build can be detected: it has room for its need, but not for the files that it reads repeatedly. The
//! pressure counters show how much time that costs.

use std::time::Duration;

use crate::reading::Reading;

/// Shortest period over which rates are computed: 50 ms do not show the rate of a second.
const MIN_PERIOD: Duration = Duration::from_millis(900);
/// Memory in use from which a build counts as at its limit, in percent of the limit. The kernel reclaims in batches, so usage is rarely
/// exactly at the limit.
const USED_PERCENT: u64 = 95;
/// Need from which a build may be starved, in percent of the limit. Starved compiles had 92 to 96 (limits of 120 to 280 MB), a healthy one
/// at its limit had 88. Large compilers have more code than the 43 MB of that one, so the threshold is lower.
const NEED_PERCENT: u64 = 85;
/// Failed charges a second from which a build may be starved. Seen on v1 without swap: 110 in a healthy build, 88,000 to 146,000 in starved
/// ones.
const STARVED_FAILURES: u64 = 5_000;
/// Refaults a second from which a build may be starved, if failed charges are not counted: 4 MiB/s that are read again.
const STARVED_REFAULTS: u64 = 1_000;
/// Major faults a second from which a build may be starved. Seen: 28 to 235 in starved builds, 0 to 1.5 in healthy ones.
const STARVED_MAJOR_FAULTS: u64 = 5;
/// Share of the time in which all tasks waited for memory, in percent, from which a build is starved. oomd and similar daemons act on 10 to
/// 60 percent for half a minute.
const STALLED_PERCENT: u64 = 20;
/// Like [`STALLED_PERCENT`], for a build with at least [`STARVED_REFAULTS`] and a need that leaves less than half of the limit for files. Seen
/// on v2, in an emulator: 3 to 14 with 12,000 to 60,000 refaults a second, more on faster disks; 13 without refaults in a build that only
/// writes.
const THRASHED_PERCENT: u64 = 10;
/// Need from which [`THRASHED_PERCENT`] applies, in percent of the limit. Without this threshold, a build with a need of 1 percent that
/// reads a large file a second time would count as starved.
const THRASHED_NEED_PERCENT: u64 = 50;

/// Numbers that show that a build is starved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StarvationEvidence {
    /// The memory limit in force, bytes.
    pub(super) limit: u64,
    pub(super) need: u64,
    /// Failed charges a second.
    pub(super) failures: Option<u64>,
    pub(super) major_faults: Option<u64>,
    pub(super) stalled_percent: Option<u64>,
}

/// Detects starvation of one build.
#[derive(Debug)]
pub(super) struct Starvation {
    /// Start of the current period, and the counters at its start.
    round: (Duration, Reading),
    /// Length of the last period, if the build looked starved in it.
    pending: Option<Duration>,
    /// Whether the build looked starved in the last two periods.
    confirmed: bool,
    starved: Duration,
    /// Whether the counters that can be read are sufficient to detect starvation.
    is_known: bool,
}

impl Starvation {
    /// Starts to observe a build; `before`: the counters at its start.
    pub(super) fn new(before: Reading) -> Self {
        let round = (Duration::ZERO, before);
        Self { round, pending: None, confirmed: false, starved: Duration::ZERO, is_known: false }
    }

    /// Time in which the build was starved, milliseconds; `None` if the counters cannot show it.
    pub(super) fn starved_ms(&self) -> Option<u64> {
        self.is_known.then(|| u64::try_from(self.starved.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether the build looked starved in the last two periods.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Adds the counters at `now`, under the memory limit `limit`. Returns evidence if the build is starved, which takes two periods in a row in which it looks starved.
    pub(super) fn add(
        &mut self,
        now: Duration,
        reading: &Reading,
        limit: Option<u64>,
    ) -> Option<StarvationEvidence> {
        self.is_known |= reading.memory_stall_usec.is_some()
            || reading.reclaim_failures.or(reading.pages.refaults).is_some();
        let length = now.saturating_sub(self.round.0);
        if length < MIN_PERIOD {
            return None;
        }
        let evidence = limit.and_then(|limit| evidence(limit, &self.round.1, reading, length));
        self.round = (now, *reading);
        let before = std::mem::replace(&mut self.pending, evidence.map(|_starved| length));
        let (Some(evidence), Some(before)) = (evidence, before) else {
            self.confirmed = false;
            return None;
        };
        if !std::mem::replace(&mut self.confirmed, true) {
            self.starved = self.starved.saturating_add(before);
        }
        self.starved = self.starved.saturating_add(length);
        Some(evidence)
    }
}

/// Evidence that the build looks starved between two readings; `None` if it does not.
fn evidence(limit: u64, from: &Reading, to: &Reading, length: Duration) -> Option<StarvationEvidence> {
    let grown = |count: fn(&Reading) -> Option<u64>| Some(count(to)?.saturating_sub(count(from)?));
    let length_usec = length.as_micros().max(1);
    let per = |amount: u64, unit: u64| {
        u64::try_from(u128::from(amount) * u128::from(unit) / length_usec).unwrap_or(u64::MAX)
    };
    let a_second = |count| grown(count).map(|amount| per(amount, 1_000_000));
    let failures = a_second(|reading| reading.reclaim_failures);
    let refaults = a_second(|reading| reading.pages.refaults);
    let major_faults = a_second(|reading| reading.major_faults);
    let stalled_percent = grown(|reading| reading.memory_stall_usec).map(|usec| per(usec, 100));
    let reaches = |bytes: u64, percent| u128::from(bytes) * 100 >= u128::from(limit) * u128::from(percent);
    let at_limit = reaches(to.memory, USED_PERCENT) || failures.is_some_and(|count| count > 0);
    let comes_back = refaults.is_some_and(|count| count >= STARVED_REFAULTS);
    let busy = failures.is_some_and(|count| count >= STARVED_FAILURES) || comes_back;
    let waits = major_faults.is_some_and(|count| count >= STARVED_MAJOR_FAULTS);
    // at a limit above, other builds may have taken the memory that this build lacks, so its own need does not have to be near the limit
    let fails_above = grown(|reading| reading.failures_above).is_some_and(|count| count > 0);
    let squeezed = reaches(to.need, NEED_PERCENT) || (fails_above && waits);
    let stalled = stalled_percent.is_some_and(|percent| percent >= STALLED_PERCENT);
    let thrashes = comes_back
        && reaches(to.need, THRASHED_NEED_PERCENT)
        && stalled_percent.is_some_and(|percent| percent >= THRASHED_PERCENT);
    // only `memory.high` lets a build exceed it, and then holds it; a kernel without pressure counters shows no more than that
    let held = stalled_percent.is_none()
        && to.memory > limit
        && to.need > limit
        && failures.is_some_and(|count| count > 0);
    let starved = at_limit && (thrashes || held || (squeezed && (stalled || (busy && waits))));
    starved.then_some(StarvationEvidence { limit, need: to.need, failures, major_faults, stalled_percent })
}

#[cfg(test)]
mod tests;
