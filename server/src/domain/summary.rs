//! What is kept of an ended attempt for ever.

use serde::{Deserialize, Serialize};

use super::{Attempt, AttemptId, Bytes, Cores, CpuMicros, Key, Millis, Progress, Resources, Source};

/// What is kept of an ended attempt for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub attempt: AttemptId,
    /// What was built.
    pub key: Key,
    /// 1 for the first execution.
    pub number: u32,
    /// The attempt that this one retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<AttemptId>,
    /// Where the numbers were read.
    pub source: Source,
    /// What was asked for and was in force.
    pub resources: Resources,
    /// Start by the agent's clock, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Time from start to end.
    pub wall: Millis,
    /// CPU time used.
    pub cpu: CpuMicros,
    /// Highest CPU use.
    pub cpu_peak: Cores,
    /// Samples kept.
    pub samples: u64,
    /// Samples that the agent had to drop.
    #[serde(default)]
    pub samples_lost: u64,
    /// Highest need.
    pub need_peak: Bytes,
    /// Mean of the need over time.
    pub need_mean: Bytes,
    /// High-water mark, page cache included.
    pub memory_peak: Bytes,
    /// Processes killed for memory; `None` if the source cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kill: Option<u64>,
    /// Charges that failed without reclaim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_failures: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Exit code or signal, if somebody saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why it failed; `None` unless it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The need is a lower bound: killed or starved at a limit.
    #[serde(default)]
    pub censored: bool,
}

/// Counters that the agent read after the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// CPU time used.
    pub cpu: CpuMicros,
    /// High-water mark, page cache included.
    pub memory_peak: Option<Bytes>,
    /// Processes killed for memory.
    pub oom_kill: Option<u64>,
    /// Charges that failed without reclaim.
    pub reclaim_failures: Option<u64>,
    /// Highest need ever read.
    pub need_peak: Option<Bytes>,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Anything else that somebody saw.
    Failed,
    /// Nobody saw the end.
    Lost,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The kernel killed a process of the build at a memory limit.
    Oom,
    /// It ran at its memory limit and reclaimed instead of building.
    Starved,
    /// Its time was over.
    Timeout,
    /// It would fail again in the same way.
    Deterministic,
    /// Trouble outside the build.
    Infra,
    /// The node or the place was taken away.
    Preempted,
    /// A disk was full.
    DiskFull,
    /// Ended on purpose.
    Canceled,
    /// Nothing known explains it.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 9] = [
        Self::Oom,
        Self::Starved,
        Self::Timeout,
        Self::Deterministic,
        Self::Infra,
        Self::Preempted,
        Self::DiskFull,
        Self::Canceled,
        Self::Unknown,
    ];

    /// The word for people, metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Starved => "starved",
            Self::Timeout => "timeout",
            Self::Deterministic => "deterministic",
            Self::Infra => "infra",
            Self::Preempted => "preempted",
            Self::DiskFull => "disk_full",
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
        }
    }

    /// The memory seen is less than what the build needs.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Oom | Self::Starved)
    }
}

impl Summary {
    /// The summary of an attempt that ended after `wall`, without its cause: judging is not measuring.
    ///
    /// Counters read after the end win over the last sample where they are ahead of it.
    pub fn of(
        attempt: &Attempt,
        progress: &Progress,
        totals: &Totals,
        wall: Millis,
        exit: Option<Exit>,
    ) -> Self {
        let last = progress.last.unwrap_or_default();
        let need_peak = progress.need_peak.max(totals.need_peak.unwrap_or_default());
        let kernel_peak = last.memory_peak.max(totals.memory_peak).unwrap_or_default();
        Self {
            attempt: attempt.id.clone(),
            key: attempt.key.clone(),
            number: attempt.number,
            retries: attempt.retries.clone(),
            source: attempt.source,
            resources: attempt.resources,
            started_unix_ms: attempt.started_unix_ms,
            wall,
            cpu: last.cpu.max(totals.cpu),
            cpu_peak: progress.cpu_peak,
            samples: progress.samples,
            samples_lost: 0,
            need_peak,
            need_mean: progress.need_mean(),
            memory_peak: kernel_peak.max(need_peak),
            oom_kill: last.oom_kill.max(totals.oom_kill),
            reclaim_failures: last.reclaim_failures.max(totals.reclaim_failures),
            outcome: match exit {
                Some(Exit::Code(0)) => Outcome::Succeeded,
                Some(_) => Outcome::Failed,
                None => Outcome::Lost,
            },
            exit,
            cause: None,
            censored: false,
        }
    }

    /// End by the agent's clock, milliseconds since 1970.
    pub fn ended_unix_ms(&self) -> u64 {
        self.started_unix_ms.saturating_add(self.wall.0)
    }

    /// The need, or of an attempt that memory stopped what it proves to be too little: the limit if it was near it, else what
    /// was seen of it.
    ///
    /// Readings miss the last burst before a kill, so the limit is the better bound. But far below the limit somebody else's
    /// memory was short, and the limit says nothing about this build.
    pub fn proven_need(&self) -> Bytes {
        let near = |limit: &Bytes| self.need_peak.0 >= limit.0 / 2;
        let limit = self.resources.memory_limit.filter(|limit| self.censored && near(limit));
        self.need_peak.max(limit.unwrap_or_default())
    }

    /// What it can teach about memory: all of it if it succeeded, a lower bound if memory stopped it, nothing otherwise.
    pub fn teaches_memory(&self) -> bool {
        self.need_peak.0 > 0 && (self.outcome == Outcome::Succeeded || self.censored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Sample, SessionId};

    fn attempt() -> Attempt {
        Attempt {
            id: AttemptId::parse("a").unwrap(),
            session: SessionId::parse("s").unwrap(),
            key: Key { package: "zlib".into(), ..Key::default() },
            number: 1,
            retries: None,
            source: Source::CgroupV1,
            resources: Resources::default(),
            started_unix_ms: 1000,
        }
    }

    #[test]
    fn counters_read_after_the_end_win() {
        let mut progress = Progress::default();
        let sample = Sample { elapsed: Millis(500), need: Bytes(10), oom_kill: Some(0), ..Sample::default() };
        progress.add(&sample).unwrap();
        let totals = Totals { oom_kill: Some(1), need_peak: Some(Bytes(30)), ..Totals::default() };
        let summary = Summary::of(&attempt(), &progress, &totals, Millis(900), Some(Exit::Code(2)));
        assert_eq!(
            (summary.oom_kill, summary.need_peak, summary.memory_peak),
            (Some(1), Bytes(30), Bytes(30))
        );
        assert_eq!((summary.outcome, summary.ended_unix_ms()), (Outcome::Failed, 1900));
    }

    #[test]
    fn an_attempt_without_samples_still_has_a_summary() {
        let summary = Summary::of(&attempt(), &Progress::default(), &Totals::default(), Millis(0), None);
        assert_eq!((summary.outcome, summary.samples), (Outcome::Lost, 0));
        assert!(!summary.teaches_memory());
    }
}
