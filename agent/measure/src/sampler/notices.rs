//! Lines for the job's log that people should see at once, each of them once.

use plimsoll_proto::{figures, v1::OomOrigin};

use super::{counters::AttemptCounters, starved::StarvationEvidence};

/// A log line that is printed at most once.
#[derive(Debug, Default)]
pub(super) enum OneTimeNotice {
    #[default]
    None,
    Waiting(String),
    Given,
}

impl OneTimeNotice {
    /// Keeps the line, unless there was one. Returns whether it is the first.
    pub(super) fn put_notice(&mut self, line: impl FnOnce() -> String) -> bool {
        let is_first = matches!(self, Self::None);
        if is_first {
            *self = Self::Waiting(line());
        }
        is_first
    }

    /// The line, once.
    pub(super) fn take_line(&mut self) -> Option<String> {
        if !matches!(self, Self::Waiting(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Given) {
            Self::Waiting(line) => Some(line),
            Self::None | Self::Given => None,
        }
    }
}

/// The line about the first kill.
pub(super) fn killed_notice(counters: &AttemptCounters, limit: Option<u64>) -> String {
    let kills = counters.oom_kill().unwrap_or(0);
    let processes = figures::counted_as(kills, "process", "processes");
    let limit = limit.map_or_else(String::new, |limit| format!(" of {}", figures::bytes(limit)));
    let origin = match counters.oom_origin() {
        OomOrigin::OwnLimit => format!(" at the build's own memory limit{limit}"),
        OomOrigin::LimitAbove => format!(" at a memory limit above the build's own{limit}"),
        OomOrigin::Host => " because the whole machine is out of memory".to_owned(),
        OomOrigin::Unspecified => " for memory".to_owned(),
    };
    format!("the kernel killed {processes} of the build{origin}")
}

/// The line about a build that is starved.
pub(super) fn starving_notice(evidence: &StarvationEvidence) -> String {
    let counts = [
        (evidence.failures, "failed charges/s"),
        (evidence.major_faults, "major faults/s"),
        (evidence.stalled_percent, "% of the time at a standstill for memory"),
    ];
    let counts = counts.into_iter().filter_map(|(count, name)| Some(format!(", {} {name}", count?)));
    format!(
        "the build is starving now at its memory limit of {}: it needs {}{}",
        figures::bytes(evidence.limit),
        figures::bytes(evidence.need),
        counts.collect::<String>()
    )
}
