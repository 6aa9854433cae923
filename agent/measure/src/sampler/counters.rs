//! Converts counters to the form of the wire: they count from the start of the attempt, and never decrease, even if the kernel's do.

use plimsoll_proto::{
    counters::PageCounters,
    v1::{OomOrigin, Sample, Totals},
};

use crate::reading::{MemorySize, Reading};

/// Least need of a build that its own limit killed, in percent of the limit. The kernel kills when it can reclaim nothing more in the
/// group; apart from the need, only pages that are being written or read remain, and pages that the kernel has charged in advance.
const KILLED_NEED_PERCENT: u64 = 95;

#[derive(Debug, Default)]
pub(super) struct AttemptCounters {
    /// The reading before the start.
    before: Reading,
    /// The latest reading.
    latest: Reading,
    need_peak: Option<u64>,
    cpu_usec: u64,
    memory_peak: Option<u64>,
    oom_kill: Option<u64>,
    oom_group_kill: Option<u64>,
    oom_origin: OomOrigin,
    reclaim_failures: Option<u64>,
    memory_stall_usec: Option<u64>,
    pages: PageCounters,
    throttled_usec: Option<u64>,
    /// Whether a part of the build is not measured, so that kills may be missing.
    is_partial: bool,
}

impl AttemptCounters {
    /// Starts to count from the reading `before`, which was taken before the build started.
    pub(super) fn new(before: Reading) -> Self {
        Self { before, latest: before, ..Self::default() }
    }

    /// Adds a need that was read.
    pub(super) fn add_need(&mut self, need: u64) {
        self.need_peak = self.need_peak.max(Some(need));
    }

    /// Adds a whole reading. Returns whether the kernel killed a process since the last reading.
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
            (&mut self.throttled_usec, reading.throttled_usec, before.throttled_usec),
        ] {
            *count = (*count).max(now.map(|now| now.saturating_sub(then.unwrap_or(0))));
        }
        self.pages = self.pages.max(reading.pages.since(before.pages));
        // in a shared group the high-water mark may be older than the build; once it grows, it is of the build
        let grown = reading.memory_peak.filter(|&mark| Some(mark) > before.memory_peak);
        self.memory_peak = self.memory_peak.max(grown);
        let killed = self.oom_kill.unwrap_or(0) > kills.unwrap_or(0);
        if killed && self.oom_origin == OomOrigin::Unspecified {
            // the reading in which the kill appears shows its origin best: others may include a harmless failure at another limit
            self.oom_origin = match oom_origin_between(&self.latest, reading) {
                OomOrigin::Unspecified | OomOrigin::Host => oom_origin_between(&before, reading),
                known => known,
            };
        }
        self.latest = *reading;
        killed
    }

    /// The least need of a build that was killed, in bytes; `None` if the kill does not show it. If memory grew fast, the last reading is
    /// far below the kill; but usage must have reached `limit`, the limit in force, because otherwise the kernel would not have killed. A
    /// kill at a smaller limit, in a group that the build created itself, shows nothing about the whole build. Neither does a kill at a
    /// limit that other builds share.
    pub(super) fn need_at_kill(&self, limit: u64) -> Option<u64> {
        let shared = self.latest.failures_above.is_some();
        let reached = self.latest.memory_peak.is_some_and(|mark| mark >= killed_need(limit));
        (self.oom_origin == OomOrigin::OwnLimit && reached && !shared).then(|| killed_need(limit))
    }

    /// CPU time since the start, microseconds.
    pub(super) fn cpu_usec(&self) -> u64 {
        self.cpu_usec
    }

    /// Records that a part of the build is not measured. From then on, no kill is reported as unknown, because one may have been missed.
    pub(super) fn note_unmeasured(&mut self) {
        self.is_partial = true;
    }

    fn if_known(&self, kills: Option<u64>) -> Option<u64> {
        kills.filter(|&kills| kills > 0 || !self.is_partial)
    }

    /// Number of processes killed since the start.
    pub(super) fn oom_kill(&self) -> Option<u64> {
        self.if_known(self.oom_kill)
    }

    /// The kind of limit at which the kernel killed.
    pub(super) fn oom_origin(&self) -> OomOrigin {
        self.oom_origin
    }

    /// A sample with the current counters.
    pub(super) fn sample(
        &self,
        elapsed_ms: u64,
        size: MemorySize,
        need_max: Option<u64>,
        starved: Option<u64>,
    ) -> Sample {
        Sample {
            elapsed_ms,
            memory_bytes: size.memory,
            need_bytes: size.need,
            memory_peak_bytes: self.memory_peak,
            cpu_usec: self.cpu_usec,
            oom_kill: self.oom_kill(),
            reclaim_failures: self.reclaim_failures,
            need_max_bytes: need_max,
            memory_stall_usec: self.memory_stall_usec,
            throttled_usec: self.throttled_usec,
            starved_ms: starved,
            ..Sample::default()
        }
        .with_pages(self.pages)
    }

    /// The current counters, for the end of the attempt.
    pub(super) fn totals(&self, starved: Option<u64>) -> Totals {
        Totals {
            cpu_usec: self.cpu_usec,
            memory_peak_bytes: self.memory_peak,
            oom_kill: self.oom_kill(),
            reclaim_failures: self.reclaim_failures,
            need_peak_bytes: self.need_peak,
            oom_origin: self.oom_origin.into(),
            oom_group_kill: self.if_known(self.oom_group_kill),
            memory_stall_usec: self.memory_stall_usec,
            throttled_usec: self.throttled_usec,
            starved_ms: starved,
            ..Totals::default()
        }
        .with_pages(self.pages)
    }
}

fn killed_need(limit: u64) -> u64 {
    u64::try_from(u128::from(limit) * u128::from(KILLED_NEED_PERCENT) / 100).unwrap_or(limit)
}

/// The kind of limit at which the kernel killed between two readings. If no limit counted a failure and all limits are visible, the machine
/// itself was out of memory.
fn oom_origin_between(from: &Reading, to: &Reading) -> OomOrigin {
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
mod tests;
