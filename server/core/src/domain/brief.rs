//! The part of a finished attempt that stays in memory. The whole summary is on disk. A million attempts in this form take some hundred MB.

mod marks;
mod observation;

use std::sync::Arc;

use marks::{
    BY_LOG, BY_PROCESSES, HELD_BACK, NO_MEASUREMENT, NODES_FAULT, ON_PRESET, OWN_JOB, PAUSED, PackedSizes,
    SCRAPED, flags_of,
};
pub use marks::{CommitMark, JobMark, RefMark};
pub use observation::RungObservation;
use plimsoll_proto::measured::IncompleteNeed;

use super::{
    AttemptId, Bytes, Cause, CpuMicros, Key, Millis, Outcome, RequestUsage, Summary,
    summary::measured::measured, weight,
};

/// A finished attempt, reduced to what sums, lists and verdicts on other attempts use.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptBrief {
    /// ID of the attempt.
    pub attempt: AttemptId,
    /// What was built: the key without what changes from attempt to attempt ([`Key::build_key`]). Attempts of one key share it.
    pub key: Arc<Key>,
    /// The attempt that this one retried.
    pub retries: Option<Box<AttemptId>>,
    /// The mark of the attempt's job, if its key names a job.
    pub job: Option<JobMark>,
    /// The mark of the attempt's commit, if its key names one.
    pub commit: Option<CommitMark>,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Time from start to end.
    pub wall: Millis,
    /// CPU time used; 0 if it was not measured.
    pub cpu: CpuMicros,
    /// Highest need; 0 if it was not measured.
    pub need_peak: Bytes,
    /// Mean of the need over time; 0 if it was not measured.
    pub need_mean: Bytes,
    /// Memory that the attempt reserved, its limit, and the mark of its ref: eight bytes in all.
    sizes: PackedSizes,
    /// Number of samples kept.
    pub samples: u32,
    /// Build jobs, 0 if not known.
    pub jobs: u16,
    /// Number of this execution of the job; 1 for the first, at most 65,535.
    pub number: u16,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// Why the attempt failed; `None` if it did not fail.
    pub cause: Option<Cause>,
    /// Flags in one byte: a further field would take eight.
    flags: u8,
    /// Whether the sender is untrusted. Such an attempt never lowers the sizes of others.
    pub untrusted: bool,
}

impl AttemptBrief {
    /// End of the attempt by the clock that measured its start, milliseconds since 1970.
    pub fn ended_unix_ms(&self) -> u64 {
        self.started_unix_ms.saturating_add(self.wall.0)
    }

    /// Position of the attempt among others: by its end, then by its id. It does not depend on when the attempt arrived, so that all
    /// servers that know the same attempts keep and use them in the same order.
    pub fn position(&self) -> (u64, &AttemptId) {
        (self.ended_unix_ms(), &self.attempt)
    }

    /// What the attempt proves about the need: the full need if it succeeded, a lower bound if memory stopped it, `None` otherwise or if
    /// its use does not count as a measurement.
    pub fn proven_need(&self) -> Option<Bytes> {
        let is_scraped_once = self.incomplete() == Some(IncompleteNeed::Prometheus) && self.wall.0 == 0;
        let ended = (self.outcome == Outcome::Succeeded && !is_scraped_once)
            || self.proven_cause().is_some_and(Cause::is_memory);
        Some(self.need_peak).filter(|need| need.0 > 0 && ended && !self.is_not_a_measurement())
    }

    /// Whether the node is to blame: it ran out of memory under a build that stayed below its limit.
    pub fn is_nodes_fault(&self) -> bool {
        self.flags & NODES_FAULT != 0
    }

    /// Whether the attempt's use does not show what such a build needs, because its work was done already or elsewhere.
    pub fn is_not_a_measurement(&self) -> bool {
        self.flags & NO_MEASUREMENT != 0
    }

    /// Whether the CPU limit held the build back: see [`Summary::is_held_back`].
    pub(crate) fn is_held_back(&self) -> bool {
        self.flags & HELD_BACK != 0
    }

    /// Whether the cause follows from a log line or a person's correction, without a measurement.
    pub fn is_cause_by_log(&self) -> bool {
        self.flags & BY_LOG != 0
    }

    /// Whether the job's own token opened the attempt. Then its labels come from the token.
    pub(crate) fn is_of_own_job(&self) -> bool {
        self.flags & OWN_JOB != 0
    }

    /// The source of the need, if that source gives only a lower bound of it.
    pub(crate) fn incomplete(&self) -> Option<IncompleteNeed> {
        match self.flags & PAUSED {
            0 => None,
            SCRAPED => Some(IncompleteNeed::Prometheus),
            BY_PROCESSES => Some(IncompleteNeed::Processes),
            _ => Some(IncompleteNeed::Paused),
        }
    }

    /// Why the attempt failed, if better evidence than a log line proves it. Predictions do not use a cause from a log line, because anyone
    /// can write one.
    pub fn proven_cause(&self) -> Option<Cause> {
        self.cause.filter(|_| !self.is_cause_by_log())
    }

    /// Memory that the attempt reserved ([`super::Resources::memory_size_asked`]).
    pub fn memory_asked(&self) -> Option<Bytes> {
        self.sizes.asked()
    }

    /// The share of its preset that the attempt needed, all of it if memory stopped the attempt. `None` if it had no preset, or its need
    /// may be above what was measured.
    pub(crate) fn share_of_preset(&self) -> Option<f64> {
        let preset =
            self.sizes.asked().filter(|_| self.flags & ON_PRESET != 0 && self.incomplete().is_none())?;
        let share = self.need_peak.as_f64() / preset.as_f64();
        Some(if self.outcome == Outcome::Succeeded { share } else { share.max(1.0) })
    }

    /// Memory limit of the attempt, exact to 0.6 %; `None` if it had none, or no size at all.
    pub fn memory_limit(&self) -> Option<Bytes> {
        self.sizes.limit()
    }

    /// The mark of the attempt's ref, if its key names one.
    pub fn ref_mark(&self) -> Option<RefMark> {
        self.sizes.ref_mark()
    }

    /// How much of its reserved memory the attempt used and wasted, GiB x h; `None` if it reserved none or its need was not measured.
    pub fn memory_use(&self) -> Option<RequestUsage> {
        let over_time = |memory: Bytes| memory.gib_hours(self.wall);
        let (asked, used) = (self.memory_asked().map(over_time), measured(self.need_mean).map(over_time));
        RequestUsage::of(asked, used, self.outcome == Outcome::Succeeded)
    }

    /// Bytes of memory that an `Arc` of this takes, without the key.
    pub fn allocated_bytes(&self) -> usize {
        let id = |id: &AttemptId| weight::arc_bytes(id.as_str().len());
        let retries = |of: &AttemptId| weight::allocation_bytes(size_of::<AttemptId>()) + id(of);
        weight::arc_bytes(size_of::<Self>()) + id(&self.attempt) + self.retries.as_deref().map_or(0, retries)
    }

    /// Reduces a summary; `key` is what the attempt built.
    fn of(summary: &Summary, key: Arc<Key>) -> Self {
        Self {
            job: JobMark::of(&summary.key),
            commit: CommitMark::of(&summary.key),
            jobs: u16::try_from(summary.key.hints.build_jobs.unwrap_or(0)).unwrap_or(u16::MAX),
            sizes: PackedSizes::of(summary),
            flags: flags_of(summary),
            untrusted: summary.opening.untrusted,
            attempt: summary.attempt.clone(),
            key,
            retries: summary.retries.clone().map(Box::new),
            started_unix_ms: summary.started_unix_ms,
            wall: summary.wall,
            cpu: summary.cpu,
            need_peak: summary.need_peak,
            need_mean: summary.need_mean,
            samples: u32::try_from(summary.samples).unwrap_or(u32::MAX),
            number: u16::try_from(summary.number).unwrap_or(u16::MAX),
            outcome: summary.outcome,
            cause: summary.cause,
        }
    }
}

impl From<&Summary> for AttemptBrief {
    fn from(summary: &Summary) -> Self {
        Self::of(summary, Arc::new(summary.key.build_key()))
    }
}

/// Whether statistics count an attempt as a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStatus {
    /// The attempt is not a retry.
    Nothing,
    /// The attempt is a retry; why the retried attempt failed is unknown.
    Unknown,
    /// The attempt is a retry of one that failed with this cause.
    Cause(Cause),
}

impl RetryStatus {
    /// The status that the attempt alone shows, before other attempts are known.
    pub fn from_brief_alone(brief: &AttemptBrief) -> Self {
        let says_so = brief.number > 1 || brief.retries.as_deref().is_some_and(|id| *id != brief.attempt);
        if says_so { Self::Unknown } else { Self::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Resources, test_summary};

    #[test]
    fn a_brief_stays_within_its_memory_budget() {
        // two counters of the pointer, and what the allocator adds: 128 bytes. One field more makes it 144.
        assert!(size_of::<AttemptBrief>() <= 104, "{}", size_of::<AttemptBrief>());
        assert!(size_of::<RungObservation>() <= 40, "{}", size_of::<RungObservation>());
    }

    #[test]
    fn requested_memory_round_trips_and_invalid_sizes_vanish() {
        let asked = |memory_limit| {
            let resources = Resources { memory_limit, ..Resources::default() };
            let summary = Summary { resources, ..test_summary("a", "zlib", "1", 10) };
            AttemptBrief::from(&summary).memory_asked()
        };
        assert_eq!(asked(Some(Bytes(1 << 20))), Some(Bytes(1 << 20)));
        let no_size = [None, Some(Bytes(0)), Some(Bytes(1)), Some(Bytes(1 << 63))];
        assert_eq!(no_size.map(asked), [None; 4]);
    }
}
