//! The permanent record of an ended attempt.

mod final_totals;
pub(super) mod measured;
#[cfg(test)]
mod tests;

use plimsoll_proto::{
    counters::PageCounters,
    measured::{IncompleteNeed, PartlyMeasured, stopped_at},
};
use serde::{Deserialize, Serialize};

pub use final_totals::FinalTotals;

use super::{
    Attempt, AttemptId, Bytes, Cause, Cores, CpuMicros, EvidenceSource, Exit, Key, LargestProcess,
    MeasurementSource, Micros, Millis, OomOrigin, OpeningRecord, Outcome, Phase, PredictionSnapshot, Rescue,
    Resources, SampleAccumulator, SessionId, stored_record::stored_record,
};

stored_record! {
    /// The permanent record of an ended attempt.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Summary {
        /// ID of the attempt.
        pub attempt: AttemptId,
        /// What was built.
        pub key: Key,
        /// Number of this execution of the job; 1 for the first.
        pub number: u32,
        /// The attempt that this one retried.
        pub retries: Option<AttemptId> = default,
        /// Where the measurements come from.
        pub source: MeasurementSource,
        /// Requests and limits of the attempt; limits as they were at its end.
        pub resources: Resources,
        /// The memory limit that the attempt began with, 0 for none; `None` if it had the same at the end.
        pub memory_limit_at_start: Option<Bytes> = default,
        /// Start, milliseconds since 1970: by the agent's clock, or as the server estimated it if that clock is wrong.
        pub started_unix_ms: u64,
        /// The agent run that delivered the attempt; `None` in records without it.
        pub origin: Option<DeliveryOrigin> = default,
        /// What the server recorded when the attempt opened.
        pub opening: OpeningRecord = default,
        /// Time from start to end.
        pub wall: Millis,
        /// CPU time used.
        pub cpu: CpuMicros,
        /// Highest CPU use over half a second or more, and never below the mean.
        pub cpu_peak: Cores,
        /// Number of samples kept.
        pub samples: u64,
        /// Number of samples that the agent had to drop.
        #[serde(default)]
        pub samples_lost: u64,
        /// Highest memory need.
        pub need_peak: Bytes,
        /// Mean of the memory need over time.
        pub need_mean: Bytes,
        /// High-water mark of memory, page cache included.
        pub memory_peak: Bytes,
        /// Number of processes killed for memory; `None` if the source does not count them.
        pub oom_kill: Option<u64> = default,
        /// Number of memory charges that failed without reclaim.
        pub reclaim_failures: Option<u64> = default,
        /// How the attempt ended.
        pub outcome: Outcome,
        /// Exit code or signal, if it was seen.
        pub exit: Option<Exit> = default,
        /// Why the attempt failed; `None` if it did not fail.
        pub cause: Option<Cause> = default,
        /// Source of the evidence that decided the cause; `None` if nothing decided.
        pub cause_source: Option<EvidenceSource> = default,
        /// The failure reason as the CI system spells it; empty if it gave none.
        pub ci_reason: String = default,
        /// Whether the need is a lower bound: the attempt was killed or starved at a limit.
        #[serde(default)]
        pub censored: bool,
        /// Which limit caused the kill; `None` if nothing was killed, or the counters do not show it.
        pub oom_origin: Option<OomOrigin> = default,
        /// Number of cgroups that the kernel killed as a whole.
        pub oom_group_kill: Option<u64> = default,
        /// Time in which every task was stalled on memory.
        pub memory_stall: Option<Micros> = default,
        /// Page counters.
        #[serde(flatten)]
        pub pages: PageCounters,
        /// Time in which a CPU limit throttled the build.
        pub throttled: Option<Micros> = default,
        /// Time in which the attempt was starved; `None` if the agent did not report it.
        pub starved: Option<Millis> = default,
        /// The part of `starved` that lies just before the end, with hardly an interruption.
        pub starved_at_end: Option<Millis> = default,
        /// Whether the build found its work done already and built nothing: predictions do not learn from it.
        pub unneeded: bool = default,
        /// The service that did the work outside what was measured, for example `docker`; empty if there was none. Predictions do not learn
        /// from such an attempt, unless memory stopped it.
        pub offloaded_to: String = default,
        /// The phases named in the build's output, in order, without overlap.
        pub phases: Vec<Phase> = default,
        /// The process that used most memory; `None` if no process could be seen.
        pub largest_process: Option<LargestProcess> = default,
        /// Most compilers and linkers that ran at once; `None` if no process could be seen.
        pub compilers_peak: Option<u32> = default,
        /// What rescue did, or would have done; `None` if it was off, or had nothing to do.
        pub rescue: Option<Rescue> = default,
    }
}

/// Identifies the agent run that delivered an attempt: equal if the same run delivers the attempt again, different for another run with the
/// same attempt id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryOrigin {
    /// Session id of the agent.
    pub session: SessionId,
    /// Start as the agent sent it, milliseconds since 1970.
    pub started_unix_ms: u64,
}

impl DeliveryOrigin {
    /// The origin of an attempt that is being delivered.
    pub fn of(attempt: &Attempt) -> Self {
        Self { session: attempt.session.clone(), started_unix_ms: attempt.started_unix_ms }
    }
}

/// Share of the CPU time that a build could have used, lost at its limit, from which its use is less than it wanted.
const HELD_BACK_SHARE: f64 = 0.15;

impl Summary {
    /// Whether its CPU limit held the build back so much that its use is a lower bound of what it wanted.
    pub fn is_held_back(&self) -> bool {
        let lost = self.throttled.unwrap_or_default().as_f64();
        lost > 0.0 && lost >= HELD_BACK_SHARE * (lost + self.cpu.as_f64())
    }

    /// A successful attempt without measurements; the summary of a measured attempt and an import of recorded history fill them in.
    pub fn recorded(attempt: AttemptId, key: Key) -> Self {
        Self {
            attempt,
            key,
            number: 1,
            retries: None,
            source: MeasurementSource::Unspecified,
            resources: Resources::default(),
            memory_limit_at_start: None,
            started_unix_ms: 0,
            origin: None,
            opening: OpeningRecord::default(),
            wall: Millis(0),
            cpu: CpuMicros(0),
            cpu_peak: Cores(0.0),
            samples: 0,
            samples_lost: 0,
            need_peak: Bytes(0),
            need_mean: Bytes(0),
            memory_peak: Bytes(0),
            oom_kill: None,
            reclaim_failures: None,
            outcome: Outcome::Succeeded,
            exit: None,
            cause: None,
            cause_source: None,
            ci_reason: String::new(),
            censored: false,
            oom_origin: None,
            oom_group_kill: None,
            memory_stall: None,
            pages: PageCounters::default(),
            throttled: None,
            starved: None,
            starved_at_end: None,
            unneeded: false,
            offloaded_to: String::new(),
            phases: Vec::new(),
            largest_process: None,
            compilers_peak: None,
            rescue: None,
        }
    }

    /// The summary of an attempt that ended after `wall`. The cause is left empty: verdicts fill it in.
    ///
    /// Counters read after the end replace the last sample's where they are higher.
    pub fn of(
        attempt: &Attempt,
        progress: &SampleAccumulator,
        totals: &FinalTotals,
        wall: Millis,
        exit: Option<Exit>,
    ) -> Self {
        let last = progress.last.unwrap_or_default();
        let need_peak = progress.need_peak.max(totals.need_peak.unwrap_or_default());
        // a high-water mark that was not read stays unknown, even if the need is known
        let memory_peak = last.memory_peak.max(totals.memory_peak).map(|mark| mark.max(need_peak));
        let oom_kill = last.oom_kill.max(totals.oom_kill);
        let starved = last.starved.max(totals.starved);
        let cpu = last.cpu.max(totals.cpu);
        let mut resources = attempt.resources;
        let began_with = resources.memory_limit.unwrap_or_default();
        let changed = totals.memory_limit.filter(|at_end| *at_end != began_with);
        if let Some(at_end) = changed {
            resources.memory_limit = measured::measured(at_end);
        }
        Self {
            number: attempt.number,
            retries: attempt.retries.clone(),
            source: attempt.source,
            resources,
            memory_limit_at_start: changed.map(|_| began_with),
            started_unix_ms: attempt.started_unix_ms,
            origin: Some(DeliveryOrigin::of(attempt)),
            opening: attempt.opening.clone(),
            wall,
            cpu,
            cpu_peak: measured::cpu_peak(progress.cpu_peak, cpu, wall),
            samples: progress.samples,
            need_peak,
            need_mean: progress.need_mean(),
            memory_peak: memory_peak.unwrap_or_default(),
            oom_kill,
            reclaim_failures: last.reclaim_failures.max(totals.reclaim_failures),
            outcome: match exit {
                Some(Exit::Code(0)) => Outcome::Succeeded,
                Some(_) => Outcome::Failed,
                None => Outcome::Lost,
            },
            exit,
            oom_origin: totals.oom_origin.filter(|_| oom_kill.is_some_and(|kills| kills > 0)),
            oom_group_kill: totals.oom_group_kill,
            memory_stall: last.memory_stall.max(totals.memory_stall),
            pages: last.pages.max(totals.pages),
            throttled: last.throttled.max(totals.throttled),
            starved,
            starved_at_end: starved.map(|counter| progress.starvation.at_end(counter, wall)),
            compilers_peak: totals.compilers_peak,
            ..Self::recorded(attempt.id.clone(), attempt.key.clone())
        }
    }

    /// Adds the phases. A need measured in a phase also counts for the whole attempt.
    #[must_use]
    pub fn with_phases(mut self, phases: Vec<Phase>) -> Self {
        let highest = phases.iter().map(|phase| phase.need_peak).max().unwrap_or_default();
        self.need_peak = self.need_peak.max(highest);
        if self.memory_peak > Bytes(0) {
            self.memory_peak = self.memory_peak.max(self.need_peak);
        }
        self.phases = phases;
        self
    }

    /// The prediction made when the attempt opened; `None` if it was only the configured default.
    pub fn predicted_at_start(&self) -> Option<PredictionSnapshot> {
        self.opening.predicted.filter(|predicted| !predicted.is_default)
    }

    /// The phase with the highest need; the first one if several are equal.
    pub fn peak_phase(&self) -> Option<&Phase> {
        // `max_by_key` returns the last of equal items, so the phases are reversed
        self.phases.iter().rev().max_by_key(|phase| phase.need_peak)
    }

    /// Whether the kernel killed because the whole machine had no memory left, not because of a limit.
    pub fn was_killed_by_host(&self) -> bool {
        self.oom_origin == Some(OomOrigin::Host)
    }

    /// Whether the node is to blame: it ran out of memory under a build that stayed below its limit, so its memory was overcommitted.
    /// False for a build without a limit, which may have used all the memory itself.
    pub fn is_nodes_fault(&self) -> bool {
        self.was_killed_by_host() && self.resources.memory_limit.is_some()
    }

    /// Whether `attempt` announces the same run as this summary again.
    pub fn is_of(&self, attempt: &Attempt) -> bool {
        match &self.origin {
            Some(origin) => *origin == DeliveryOrigin::of(attempt),
            None => self.started_unix_ms == attempt.started_unix_ms,
        }
    }

    /// Whether the ended attempt gives up its id to `attempt`: `attempt` proved that it is the job which the id names, and the ended one
    /// did not. A trusted attempt gives up its id only to another trusted one, so that others cannot lower sizes.
    pub fn yields_to(&self, attempt: &Attempt) -> bool {
        let is_proven = !self.opening.proven && attempt.opening.proven;
        is_proven && (self.opening.untrusted || !attempt.opening.untrusted)
    }

    /// End of the attempt by the clock that measured its start, milliseconds since 1970.
    pub fn ended_unix_ms(&self) -> u64 {
        self.started_unix_ms.saturating_add(self.wall.0)
    }

    /// The memory limit that held the attempt back. If it changed meanwhile: that at the end for a kill, which the agent counts at once, else
    /// the lower of both.
    pub fn holding_limit(&self) -> Option<Bytes> {
        let (at_end, at_start) = (self.resources.memory_limit, self.memory_limit_at_start);
        match at_start.filter(|limit| limit.0 > 0 && self.oom_kill.unwrap_or(0) == 0) {
            Some(at_start) => Some(at_end.map_or(at_start, |at_end| at_end.min(at_start))),
            None => at_end,
        }
    }

    /// Requests and limits that the attempt began with.
    pub fn resources_at_start(&self) -> Resources {
        let at_start = self.memory_limit_at_start.map(|limit| Some(limit).filter(|limit| limit.0 > 0));
        Resources { memory_limit: at_start.unwrap_or(self.resources.memory_limit), ..self.resources }
    }

    /// The size that proved too small, if memory stopped the attempt ([`stopped_at`]).
    pub fn stopped_at(&self) -> Bytes {
        let is_above = self.oom_origin == Some(OomOrigin::LimitAbove);
        Bytes(stopped_at(self.need_peak.0, self.holding_limit().map(|limit| limit.0), is_above))
    }

    /// The measured need, or its proven lower bound.
    pub fn proven_need(&self) -> Bytes {
        if self.censored { self.stopped_at() } else { self.need_peak }
    }

    /// Whether the cause follows from a line of the log alone, or a cause of memory from an exit code. Any build can write such a line and
    /// end so, so the cause is shown and counted, and predictions do not use it.
    pub fn is_cause_by_log(&self) -> bool {
        match self.cause_source {
            Some(EvidenceSource::Exit) => self.cause.is_some_and(Cause::is_memory),
            source => source == Some(EvidenceSource::Log),
        }
    }

    /// Whether the cause follows from a log line or a person's correction, without a measurement. Neither proves a need.
    pub fn is_cause_unmeasured(&self) -> bool {
        let by_person = self.cause_source == Some(EvidenceSource::Person);
        self.is_cause_by_log() || (by_person && self.cause.is_some_and(Cause::is_memory))
    }

    /// The source of the need, if that source gives only a lower bound. Such a need may raise a request and lowers no limit.
    pub fn incomplete(&self) -> Option<IncompleteNeed> {
        let paused = self.was_rescued().then_some(IncompleteNeed::Paused);
        paused.or_else(|| IncompleteNeed::of(self.source))
    }

    /// Whether the attempt's use does not show what such a build needs, because its work was done already or elsewhere. If memory stopped
    /// it, the size was too small all the same, unless nothing says of which build.
    pub fn is_not_a_measurement(&self) -> bool {
        let is_unnamed = self.offloaded_to == PartlyMeasured::Unnamed.name();
        self.unneeded || is_unnamed || (!self.offloaded_to.is_empty() && !self.censored)
    }

    /// Whether predictions of memory use this attempt: its need if it succeeded, a lower bound if memory stopped it. A kill before the
    /// first reading also proves that the limit was too small.
    pub fn counts_for_memory(&self) -> bool {
        // a single scrape, with no time between first and last, was at any moment of the build
        let is_scraped_once = self.source == MeasurementSource::Prometheus && self.wall.0 == 0;
        let ended = (self.outcome == Outcome::Succeeded && !is_scraped_once) || self.censored;
        self.proven_need().0 > 0 && !self.is_not_a_measurement() && ended
    }
}
