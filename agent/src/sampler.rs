//! Turns readings into samples, at a pace that suits the age of the build.
//!
//! Builds of two seconds must have a series, and builds of two hours a small one: 50 ms at first, then 250 ms, then the interval
//! that was set. Between two samples that are further apart the need is still read every 250 ms, because a peak of 0.3 s is
//! missed by half of all 1 Hz samplers; only its highest value is kept. A tick that was missed is a gap, never made up.
//!
//! What leaves here obeys the wire: time strictly grows, counters start at the start of the attempt and never go back, whatever
//! the kernel says.

use std::time::Duration;

use plimsoll_proto::{
    limits,
    v1::{Phase, Sample, Totals},
};
use tokio::time::Instant;

use crate::meter::{Meter, Reading};

/// Until [`FIRST_UNTIL`].
const FIRST_STEP: Duration = Duration::from_millis(50);
const FIRST_UNTIL: Duration = Duration::from_secs(2);
/// Until [`SECOND_UNTIL`]; and between readings of the need at all times.
const SECOND_STEP: Duration = Duration::from_millis(250);
const SECOND_UNTIL: Duration = Duration::from_secs(10);
/// Whatever was set, the agent takes no more of the machine than this.
const SHORTEST_STEP: Duration = Duration::from_millis(10);

/// Everything that was measured of one build.
#[derive(Debug)]
pub struct Measured {
    /// The last sample, unless one was taken a moment before.
    pub last: Option<Sample>,
    /// Counters after the end.
    pub totals: Totals,
    /// In order of their start; at most [`limits::PHASES`].
    pub phases: Vec<Phase>,
    /// The need over the whole build, in at most 120 equal parts.
    pub curve: Vec<u64>,
    /// To be closed.
    pub meter: Meter,
}

/// Samples one build from its start to its end.
#[derive(Debug)]
pub struct Sampler {
    phases: Vec<Phase>,
    in_phase: bool,
    curve: Vec<u64>,
    meter: Meter,
    interval: Duration,
    start: Instant,
    next_sample: Duration,
    next_need: Duration,
    history: History,
}

impl Sampler {
    /// Begins with the counters of `before` the build, which started at `start`.
    pub fn new(meter: Meter, before: Option<Reading>, start: Instant, interval: Duration) -> Self {
        let history = History { before: before.unwrap_or_default(), ..History::default() };
        let first = step(Duration::ZERO, interval);
        Self {
            phases: Vec::new(),
            in_phase: false,
            curve: Vec::new(),
            meter,
            interval,
            start,
            next_sample: first,
            next_need: first,
            history,
        }
    }

    /// When [`Self::tick`] has something to do again.
    pub fn due(&self) -> Instant {
        self.start + self.next_sample.min(self.next_need)
    }

    /// Reads what is due. Called early, it does nothing.
    pub fn tick(&mut self) -> Option<Sample> {
        let now = self.start.elapsed();
        if now >= self.next_sample {
            self.next_sample = following(self.next_sample, step(self.next_sample, self.interval), now);
            self.next_need = now + SECOND_STEP;
            return self.sample(now);
        }
        if now >= self.next_need {
            self.next_need = following(self.next_need, SECOND_STEP, now);
            if let Some(need) = self.meter.read_need() {
                self.history.add_need(need);
            }
        }
        None
    }

    fn sample(&mut self, now: Duration) -> Option<Sample> {
        let reading = self.meter.read()?;
        self.curve.push(reading.need);
        if let Some(phase) = self.phases.last_mut().filter(|_| self.in_phase) {
            phase.need_peak_bytes = phase.need_peak_bytes.max(reading.need);
        }
        self.history.add(&reading, now)
    }

    /// A phase begins; the one before ends.
    pub fn begin_phase(&mut self, name: &str) {
        self.end_phase();
        if self.phases.len() < limits::PHASES {
            let started_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let name = name.to_owned();
            self.phases.push(Phase { name, started_ms, cpu_usec: self.history.cpu_usec, ..Phase::default() });
            self.in_phase = true;
        }
    }

    /// The phase ends.
    pub fn end_phase(&mut self) {
        let now = self.start.elapsed();
        if let Some(reading) = self.meter.read() {
            let cpu_usec = reading.cpu_usec.saturating_sub(self.history.before.cpu_usec);
            self.history.cpu_usec = self.history.cpu_usec.max(cpu_usec);
            self.history.add_need(reading.need);
            if let Some(phase) = self.phases.last_mut().filter(|_| self.in_phase) {
                phase.need_peak_bytes = phase.need_peak_bytes.max(reading.need);
            }
        }
        if let Some(phase) = self.phases.last_mut().filter(|_| std::mem::take(&mut self.in_phase)) {
            let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            phase.wall_ms = now_ms.saturating_sub(phase.started_ms);
            phase.cpu_usec = self.history.cpu_usec.saturating_sub(phase.cpu_usec);
        }
    }

    /// A line for the job's log, while the build runs.
    pub fn take_notice(&mut self) -> Option<String> {
        None
    }

    /// Reads once more, after the end of the command.
    pub fn finish(mut self) -> Measured {
        self.end_phase();
        let last = self.sample(self.start.elapsed());
        let totals = self.history.totals();
        let part = self.curve.len().div_ceil(120).max(1);
        let curve = self.curve.chunks(part).filter_map(|part| part.iter().max().copied()).collect();
        Measured { last, totals, phases: self.phases, curve, meter: self.meter }
    }
}

/// Time between two samples, `elapsed` after the start.
fn step(elapsed: Duration, interval: Duration) -> Duration {
    let step = if elapsed < FIRST_UNTIL {
        interval.min(FIRST_STEP)
    } else if elapsed < SECOND_UNTIL {
        interval.min(SECOND_STEP)
    } else {
        interval
    };
    step.max(SHORTEST_STEP)
}

/// The next moment after `now` on the grid of `step` that begins at `due`.
fn following(due: Duration, step: Duration, now: Duration) -> Duration {
    let missed = now.saturating_sub(due).as_nanos() / step.as_nanos().max(1);
    let missed = u32::try_from(missed).unwrap_or(u32::MAX - 1);
    due.saturating_add(step.saturating_mul(missed + 1))
}

/// What was seen so far.
#[derive(Debug, Default)]
struct History {
    /// Counters before the start.
    before: Reading,
    last: Option<Sample>,
    need_peak: Option<u64>,
    /// Counters since the start, as high as they ever were.
    cpu_usec: u64,
    memory_peak: Option<u64>,
    oom_kill: Option<u64>,
    reclaim_failures: Option<u64>,
}

impl History {
    fn add_need(&mut self, need: u64) {
        self.need_peak = self.need_peak.max(Some(need));
    }

    /// Takes a reading in; `None` if it comes within the same millisecond as the last one.
    fn add(&mut self, reading: &Reading, elapsed: Duration) -> Option<Sample> {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        self.add_need(reading.need);
        self.cpu_usec = self.cpu_usec.max(reading.cpu_usec.saturating_sub(self.before.cpu_usec));
        self.oom_kill = self.oom_kill.max(since(reading.oom_kill, self.before.oom_kill));
        let failures = since(reading.reclaim_failures, self.before.reclaim_failures);
        self.reclaim_failures = self.reclaim_failures.max(failures);
        // in a shared group the mark may be older than the build; once it grows, it is the build's
        let grown = reading.memory_peak.filter(|&mark| Some(mark) > self.before.memory_peak);
        self.memory_peak = self.memory_peak.max(grown);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
        if self.last.is_some_and(|last| elapsed_ms <= last.elapsed_ms) {
            return None;
        }
        self.last = Some(Sample {
            elapsed_ms,
            memory_bytes: reading.memory,
            need_bytes: reading.need,
            memory_peak_bytes: self.memory_peak,
            cpu_usec: self.cpu_usec,
            oom_kill: self.oom_kill,
            reclaim_failures: self.reclaim_failures,
            ..Sample::default()
        });
        self.last
    }

    fn totals(&self) -> Totals {
        Totals {
            cpu_usec: self.cpu_usec,
            memory_peak_bytes: self.memory_peak,
            oom_kill: self.oom_kill,
            reclaim_failures: self.reclaim_failures,
            need_peak_bytes: self.need_peak,
            ..Totals::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fake::FakeKernel;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_pace_slows_down_with_the_age_of_the_build() {
        let second = Duration::from_secs(1);
        assert_eq!(step(MS(0), second), MS(50));
        assert_eq!(step(MS(1999), second), MS(50));
        assert_eq!(step(MS(2000), second), MS(250));
        assert_eq!(step(MS(10_000), second), second);
        assert_eq!(step(MS(0), MS(20)), MS(20), "who asks for more gets it at all times");
        assert_eq!(step(MS(60_000), Duration::ZERO), SHORTEST_STEP);
    }

    #[test]
    fn missed_ticks_are_gaps() {
        assert_eq!(following(MS(50), MS(50), MS(51)), MS(100));
        assert_eq!(following(MS(50), MS(50), MS(349)), MS(350));
        assert_eq!(following(MS(50), MS(50), MS(350)), MS(400));
        assert!(following(MS(50), Duration::from_nanos(1), Duration::from_secs(1 << 40)) > MS(50));
    }

    #[test]
    fn nothing_that_leaves_goes_back() {
        let before = Reading {
            cpu_usec: 1000,
            oom_kill: Some(4),
            memory_peak: Some(500),
            reclaim_failures: Some(10),
            ..Reading::default()
        };
        let mut history = History { before, ..History::default() };
        let first = Reading {
            memory: 300,
            need: 200,
            memory_peak: Some(500),
            cpu_usec: 1700,
            oom_kill: Some(5),
            reclaim_failures: Some(12),
        };
        let sample = history.add(&first, MS(50)).unwrap();
        assert_eq!((sample.cpu_usec, sample.oom_kill, sample.reclaim_failures), (700, Some(1), Some(2)));
        assert_eq!(sample.memory_peak_bytes, None, "a mark from before the start says nothing");
        let back = Reading {
            cpu_usec: 0,
            oom_kill: Some(0),
            reclaim_failures: None,
            memory_peak: Some(700),
            need: 100,
            ..first
        };
        assert_eq!(history.add(&back, MS(50)), None, "time must grow");
        let sample = history.add(&back, MS(51)).unwrap();
        assert_eq!((sample.cpu_usec, sample.oom_kill, sample.reclaim_failures), (700, Some(1), Some(2)));
        assert_eq!((sample.memory_peak_bytes, sample.need_bytes), (Some(700), 100));
        history.add_need(900);
        assert_eq!(history.totals().need_peak_bytes, Some(900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_build_of_thirteen_seconds_has_75_samples_and_the_need_is_read_in_between() {
        let fake = FakeKernel::v2("/build");
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        let before = meter.read();
        let start = Instant::now();
        let mut sampler = Sampler::new(meter, before, start, Duration::from_secs(1));
        let mut samples = Vec::new();
        while start.elapsed() < Duration::from_secs(13) {
            tokio::time::sleep_until(sampler.due()).await;
            // a peak between two samples, longer than 250 ms
            let peak = (11_300..11_700).contains(&start.elapsed().as_millis());
            let stat = format!("anon {}\n", 1000 + 8000 * u32::from(peak));
            fake.write("/sys/fs/cgroup/build/memory.stat", &stat);
            samples.extend(sampler.tick());
        }
        assert_eq!(samples.len(), 40 + 32 + 3);
        assert!(samples.iter().all(|sample| sample.need_bytes == 1000));
        let Measured { last, totals, .. } = sampler.finish();
        assert_eq!(last, None, "the last sample was a moment ago");
        assert_eq!(totals.need_peak_bytes, Some(9000));
    }
}
