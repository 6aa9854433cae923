//! Turns readings into samples.
//!
//! | module | what it does |
//! |---|---|
//! | `pace` | decides when to take a reading, and when the readings are combined to a sample |
//! | `row` | combines several readings into one sample |
//! | `counters` | counts from the start of the attempt, and finds the kind of limit at which the kernel killed |
//! | `starved` | distinguishes a starved build from one that only fills its memory limit |
//! | `looks` | looks at single processes: the largest one, and what rescue may do |
//! | `notices` | lines for the job's log |
//! | `raising` | raises the memory limit of a build that needs more |
//! | `phases`, `curve` | the need in each phase that is reported, and over the whole build |
//!
//! Samples keep the rules of the wire: times strictly increase, counters begin with the attempt and never decrease. A failed reading leaves
//! a gap, and is not replaced by an estimate.

mod counters;
mod curve;
mod looks;
mod notices;
mod pace;
mod phases;
mod raising;
mod row;
mod starved;

use std::{path::Path, time::Duration};

use plimsoll_proto::v1::{ActsNow, LargestProcess, Phase, Rescue, Sample, Totals};
use tokio::time::Instant;

pub use self::looks::RescueActs;
use self::{
    counters::AttemptCounters,
    curve::NeedCurve,
    looks::{Near, ProcessLooks},
    notices::{OneTimeNotice, killed_notice, starving_notice},
    pace::{DueReading, Pace},
    phases::Phases,
    raising::LimitRaising,
    row::SampleRow,
    starved::Starvation,
};
use crate::{
    clock::thread_cpu_time,
    meter::{HIDDEN_PROCESSES, Meter},
    offload::{OffloadWatch, ServicePrograms, connections},
    processes::{ProcessId, ProcessTable},
    proctree,
    reading::{MemorySize, Reading},
    rescue::RescueSettings,
};

/// How often the limits are read again.
const LIMITS_INTERVAL: Duration = Duration::from_secs(1);

/// Samples one build from its start to its end.
#[derive(Debug)]
pub struct Sampler {
    meter: Meter,
    start: Instant,
    pace: Pace,
    row: SampleRow,
    counters: AttemptCounters,
    starvation: Starvation,
    /// The memory limit when the build started, bytes.
    limit_at_start: Option<u64>,
    /// When the limits were read last.
    limits_read: Duration,
    phases: Phases,
    curve: NeedCurve,
    offload: OffloadWatch,
    looks: ProcessLooks,
    last_ms: u64,
    /// The last need that was read, bytes.
    need: u64,
    is_starved: bool,
    /// `None` if the limit is not raised.
    raising: Option<LimitRaising>,
    kill_notice: OneTimeNotice,
    starved_notice: OneTimeNotice,
    unmeasured_notice: OneTimeNotice,
}

/// Everything that was measured about one build.
#[derive(Debug)]
pub struct Measured {
    /// The sample after the end; `None` if the previous one was taken within the same millisecond, or if nothing can be read any more.
    pub last: Option<Sample>,
    /// Counters since the start.
    pub totals: Totals,
    /// The phases in the order of their start, not overlapping.
    pub phases: Vec<Phase>,
    /// The highest need in each of at most 120 equal parts of the build, bytes.
    pub curve: Vec<u64>,
    /// The service that did the build's work elsewhere, if one did, else the name of what kept the numbers from being exact. The server
    /// learns nothing from the need of such an attempt.
    pub offloaded_to: Option<&'static str>,
    /// The process that used most memory, if one could be seen.
    pub largest_process: Option<LargestProcess>,
    /// What rescue did, if it did anything.
    pub rescue: Option<Rescue>,
    /// The meter, which the caller must close.
    pub meter: Meter,
}

impl Sampler {
    /// Starts to sample a build that started at `start`; `before`: the counters before that. A sample is made every `interval`, and more
    /// often in the first seconds.
    pub fn new(meter: Meter, before: Option<Reading>, start: Instant, interval: Duration) -> Self {
        let before = before.unwrap_or_default();
        let limit_at_start = meter.limits().memory;
        Self {
            meter,
            start,
            pace: Pace::new(interval),
            row: SampleRow::default(),
            counters: AttemptCounters::new(before),
            starvation: Starvation::new(before),
            limit_at_start,
            limits_read: Duration::ZERO,
            phases: Phases::default(),
            curve: NeedCurve::new(),
            offload: OffloadWatch::here(),
            looks: ProcessLooks::new(RescueSettings::default()),
            last_ms: 0,
            need: 0,
            is_starved: false,
            raising: None,
            kill_notice: OneTimeNotice::default(),
            starved_notice: OneTimeNotice::default(),
            unmeasured_notice: OneTimeNotice::default(),
        }
    }

    /// Lets rescue do what `settings` allow.
    #[must_use]
    pub fn with_rescue(self, settings: RescueSettings) -> Self {
        Self { looks: ProcessLooks::new(settings), ..self }
    }

    /// The time at which [`Self::tick`] must be called next.
    pub fn due(&self) -> Instant {
        self.start + self.pace.next()
    }

    /// Takes the readings that are due, and returns a sample if one is complete. Does nothing if nothing is due.
    pub fn tick(&mut self) -> Option<Sample> {
        let now = self.start.elapsed();
        let due = self.pace.take(now)?;
        // read only where it is needed: an idle agent does little else ten times a second
        let before = self.meter.looks_at_processes().then(thread_cpu_time);
        let sample = match due {
            DueReading::Row => {
                let sample = self.close_row(now);
                self.look_at_processes(now, Some(self.is_starved));
                if sample.is_some() && self.offload.is_due(now) {
                    self.look_for_services(now);
                }
                sample
            }
            DueReading::Size => {
                if let Some(size) = self.meter.read_size() {
                    self.add_size(now, size);
                    self.look_at_processes(now, None);
                }
                None
            }
        };
        let is_near =
            self.raising.as_ref().is_some_and(LimitRaising::needs_readings) || self.looks.needs_readings();
        if let Some(before) = before.filter(|_cost| !is_near) {
            self.pace.pause_after(self.start.elapsed(), thread_cpu_time().saturating_sub(before));
        }
        sample
    }

    fn look_at_processes(&mut self, now: Duration, is_starved: Option<bool>) {
        // first, so that nothing is paused near a limit that can be raised
        let limit = self.raise_limit(now);
        let near = Near { now, need: self.need, limit };
        self.looks.look(&self.meter, near, is_starved);
    }

    /// The running processes of the build: those of its own group, else process `top` and its descendants, while it runs.
    pub fn build_processes(&self, top: ProcessId) -> Vec<ProcessId> {
        let (proc, mut pids) = self.meter.processes();
        let has_own_group = self.meter.has_own_group();
        if !has_own_group {
            pids = proctree::below(&proc, top.pid).into_iter().chain([top.pid]).collect();
        }
        let running = ProcessTable::read(proc, &pids).processes;
        let ids: Vec<ProcessId> = running.values().map(|process| process.id).collect();
        if has_own_group || ids.contains(&top) { ids } else { Vec::new() }
    }

    /// The cgroup of the build, and whether the agent made it.
    /// Errors: no cgroup measures the build alone, or its processes are not visible; in words for a log.
    pub fn build_group(&self) -> Result<(&Path, bool), &'static str> {
        let seen = self.meter.group_seen()?;
        let sees = seen.1 || self.meter.processes().1.iter().any(|pid| *pid > 0);
        sees.then_some(seen).ok_or(HIDDEN_PROCESSES)
    }

    fn look_for_services(&mut self, now: Duration) {
        let (before, cpu_usec) = (thread_cpu_time(), self.counters.cpu_usec());
        let (proc, pids) = self.meter.processes();
        let programs = ServicePrograms::among_processes(&proc, pids.iter().copied());
        let counted = thread_cpu_time();
        self.offload.add(now, cpu_usec, &programs, counted.saturating_sub(before));
        if self.offload.is_connection_due(now, cpu_usec) {
            let is_held = connections::reach_outside(&proc, &pids);
            self.offload.add_connection(now, is_held, thread_cpu_time().saturating_sub(counted));
        }
    }

    /// Begins a phase of the build, and ends the previous phase. Takes a reading at once, so that the CPU time is exact.
    pub fn begin_phase(&mut self, name: &str) {
        let now = self.start.elapsed();
        let need = self.read_at_bound(now);
        self.phases.begin(name, now, self.counters.cpu_usec(), need);
    }

    /// Ends the current phase, if there is one.
    pub fn end_phase(&mut self) {
        let now = self.start.elapsed();
        self.read_at_bound(now);
        self.phases.end(now, self.counters.cpu_usec());
    }

    /// Takes a reading at the start or end of a phase, unless further phases are not recorded separately. Returns the need; 0 if it could
    /// not be read.
    fn read_at_bound(&mut self, now: Duration) -> u64 {
        if !self.phases.are_separate() || !self.read(now) {
            return 0;
        }
        self.need
    }

    /// A line for the job's log that people should see at once. Each kind of line is returned once, and that of a raised limit for each raise.
    pub fn take_notice(&mut self) -> Option<String> {
        let raised = self.raising.as_mut().and_then(LimitRaising::take_line);
        let notice = raised.or_else(|| self.kill_notice.take_line());
        let notice = notice.or_else(|| self.starved_notice.take_line());
        notice.or_else(|| self.unmeasured_notice.take_line()).or_else(|| self.looks.take_notice())
    }

    /// Takes the last reading, after the end of the command.
    pub fn finish(mut self) -> Measured {
        let now = self.start.elapsed();
        self.meter.look_at_end();
        self.meter.refresh_limits();
        let last = self.close_row(now);
        let changed = self.changed_limit();
        let totals = self.counters.totals(self.starvation.starved_ms());
        let raises = self.raising.as_ref().map_or(0, LimitRaising::raises);
        let raised = self.raising.as_ref().map_or(0, |raising| raising.raised_byte_seconds(now));
        let (largest_process, compilers_peak, rescue) = self.looks.finish(raises, raised);
        Measured {
            last,
            totals: Totals { memory_limit_bytes: changed, compilers_peak, ..totals },
            largest_process,
            rescue,
            phases: self.phases.finish(now, self.counters.cpu_usec()),
            curve: self.curve.finish(),
            offloaded_to: self
                .offload
                .service(now, self.counters.cpu_usec())
                .or_else(|| self.meter.unmeasured().map(|(what, _text)| what.name())),
            meter: self.meter,
        }
    }

    /// Reads all counters and makes a sample, unless it would be in the same millisecond as the last one.
    fn close_row(&mut self, now: Duration) -> Option<Sample> {
        let read = self.read(now);
        let elapsed_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1);
        if !read || elapsed_ms <= self.last_ms {
            return None;
        }
        self.last_ms = elapsed_ms;
        let (size, need_max) = std::mem::take(&mut self.row).means();
        let sample = self.counters.sample(elapsed_ms, size, need_max, self.starvation.starved_ms());
        Some(Sample { acts: self.acts_now(), ..sample })
    }

    /// The memory limit in force, 0 for none; `None` if it is the one at the start.
    fn changed_limit(&self) -> Option<u64> {
        let limit = self.meter.limits().memory;
        (limit != self.limit_at_start).then(|| limit.unwrap_or(0))
    }

    /// What was done so far about the limit; `None` if nothing was, and the limit is the one at the start.
    fn acts_now(&self) -> Option<ActsNow> {
        let raises = self.raising.as_ref().map_or(0, LimitRaising::raises);
        let acts = ActsNow { memory_limit_bytes: self.changed_limit(), raises, ..self.looks.pauses_so_far() };
        (acts != ActsNow::default()).then_some(acts)
    }

    /// Reads all counters; returns false if that failed.
    fn read(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.limits_read) >= LIMITS_INTERVAL {
            self.meter.refresh_limits();
            self.limits_read = now;
        }
        let Some(reading) = self.meter.read() else { return false };
        self.add_size(now, MemorySize { memory: reading.memory, need: reading.need });
        if self.counters.add(&reading) {
            // a kill may follow from a limit that was just lowered
            self.meter.refresh_limits();
            let limit = self.meter.limits().killing;
            if let Some(need) = limit.and_then(|limit| self.counters.need_at_kill(limit)) {
                // this need is not put in the sample, because the series has only needs that were read
                self.add_need(now, need);
            }
            self.kill_notice.put_notice(|| killed_notice(&self.counters, limit));
        }
        let starved = self.starvation.add(now, &reading, self.meter.limits().memory);
        self.is_starved = self.starvation.is_confirmed();
        if let Some(evidence) = starved {
            self.starved_notice.put_notice(|| starving_notice(&evidence));
        }
        if let Some((_what, text)) = self.meter.unmeasured() {
            self.unmeasured_notice.put_notice(|| text.to_owned());
            self.counters.note_unmeasured();
        }
        true
    }

    fn add_size(&mut self, now: Duration, size: MemorySize) {
        self.need = size.need;
        self.row.add(size);
        self.add_need(now, size.need);
    }

    fn add_need(&mut self, now: Duration, need: u64) {
        self.counters.add_need(need);
        self.phases.add_need(need);
        self.curve.add(now, need);
    }
}

#[cfg(test)]
mod tests;
