//! The one line at the end, for the person who reads the agent's log.

use std::{fmt, time::Duration};

use bytesize::ByteSize;
use plimsoll_proto::v1::{Resources, Totals};

use crate::delivery::Report;

/// Everything that the line says.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// Why the agent has left.
    pub(super) end: &'a str,
    pub(super) wall: Duration,
    pub(super) totals: &'a Totals,
    pub(super) resources: &'a Resources,
    pub(super) attempt: &'a str,
    pub(super) report: &'a Report,
    /// Samples go nowhere, on purpose.
    pub(super) measures_only: bool,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plimsoll: {} followed until {}, {:.1} s", self.name, self.end, self.wall.as_secs_f64())?;
        if let Some(kills) = self.totals.oom_kill.filter(|&kills| kills > 0) {
            write!(f, "; killed for memory: {kills}")?;
        }
        match self.totals.need_peak_bytes {
            Some(need) => write!(f, "; need {}", ByteSize(need).display().iec())?,
            None => write!(f, "; memory was not measured")?,
        }
        if let Some(limit) = self.resources.memory_limit_bytes {
            write!(f, ", limit {}", ByteSize(limit).display().iec())?;
        }
        if let Some(mark) = self.totals.memory_peak_bytes {
            write!(f, ", high-water mark {}", ByteSize(mark).display().iec())?;
        }
        write!(f, ", CPU {:.1} s", Duration::from_micros(self.totals.cpu_usec).as_secs_f64())?;
        self.write_samples(f)
    }
}

impl Line<'_> {
    fn write_samples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.measures_only {
            return Ok(());
        }
        match (&self.report.kept, self.report.delivered) {
            (_kept, true) => write!(f, ", samples delivered as {}", self.attempt)?,
            (Some(kept), false) => {
                write!(f, ", samples of {} kept for the next run in {}", self.attempt, kept.display())?;
            }
            (None, false) => write!(f, ", samples of {} not delivered", self.attempt)?,
        }
        if self.report.lost > 0 {
            write!(f, ", {} lost", self.report.lost)?;
        }
        match &self.report.problem {
            Some(problem) => write!(f, ": {problem}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_why_the_agent_left_and_what_was_used() {
        let totals = Totals {
            cpu_usec: 2_500_000,
            oom_kill: Some(1),
            need_peak_bytes: Some(64 << 20),
            ..Totals::default()
        };
        let line = Line {
            name: "zlib",
            end: "its process ended",
            wall: Duration::from_millis(12_300),
            totals: &totals,
            resources: &Resources { memory_limit_bytes: Some(1 << 30), ..Resources::default() },
            attempt: "job-7",
            report: &Report { delivered: true, ..Report::default() },
            measures_only: false,
        };
        assert_eq!(
            line.to_string(),
            "plimsoll: zlib followed until its process ended, 12.3 s; killed for memory: 1; need 64.0 MiB, limit 1.0 GiB, \
             CPU 2.5 s, samples delivered as job-7"
        );
    }
}
