//! The report in one line: what the build used, its limits, and where its samples are.

use std::{ffi::OsString, fmt, path::Path};

use plimsoll_proto::{
    evidence::is_of_success,
    figures::{self, bytes},
    measured, shown,
    v1::{Cause, Key, OomOrigin},
    verdict,
};

use super::{BuildFacts, MeasurementEnd, words};
use crate::ask::outlook;

/// A need counts as having reached a limit if the limit exceeds it by at most this part (one eighth) of the limit.
const NEAR_LIMIT_PART: u64 = 8;

#[derive(Debug)]
pub(super) struct ReportLine<'a>(pub(super) &'a BuildFacts);

/// A short name of the build: package and version, else the name of the program.
pub(crate) fn name(key: &Key, command: &[OsString]) -> String {
    let name = match (key.package.as_str(), key.version.as_str()) {
        ("", _version) => {
            let file = command.first().and_then(|command| Path::new(command).file_name());
            file.unwrap_or_default().to_string_lossy().into_owned()
        }
        (package, "") => package.to_owned(),
        (package, version) => format!("{package}@{version}"),
    };
    shown::clean(&name)
}

impl fmt::Display for ReportLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ReportHead(self.0))?;
        let summary = self.0.summary();
        write!(f, ", CPU {}", measured::cpu_time_words(&summary))?;
        if let Some(mean) = measured::mean_cores(&summary) {
            write!(f, " ({})", figures::cores_named(mean))?;
        }
        self.write_samples(f)
    }
}

/// The first part of the line: result and memory. A folded report has it as its heading.
#[derive(Debug)]
pub(super) struct ReportHead<'a>(pub(super) &'a BuildFacts);

impl fmt::Display for ReportHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plimsoll: {} {}", self.0.name, self.0.end)?;
        let comma = if matches!(self.0.end, MeasurementEnd::Followed(_)) { "," } else { " after" };
        write!(f, "{comma} {}", figures::millis(self.0.summary().wall_ms))?;
        self.write_memory(f)
    }
}

impl ReportHead<'_> {
    /// Where the build was killed: at its own limit, if its need came close to that. Otherwise a part of the
    /// build reached a lower limit that the build itself had set.
    fn killed_at(&self) -> String {
        let totals = &self.0.totals;
        let near =
            |limit: &u64| totals.need_peak_bytes.is_none_or(|need| need >= limit - limit / NEAR_LIMIT_PART);
        match (totals.oom_origin(), self.0.resources.memory_limit_bytes) {
            (OomOrigin::OwnLimit, Some(limit)) if near(&limit) => {
                format!("at the limit of {}", bytes(limit))
            }
            (origin, _limit) => words::limit_words(origin).to_owned(),
        }
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.0.summary();
        let kills = self.0.totals.oom_kill.unwrap_or(0);
        if kills > 0 {
            write!(
                f,
                "; the kernel killed {} {}",
                figures::counted_as(kills, "process", "processes"),
                self.killed_at()
            )?;
        }
        if measured::need(&summary).is_none() {
            return write!(f, "; memory was not measured");
        }
        write!(f, "; needed {}", measured::noted_need_words(&summary))?;
        if let Some(elsewhere) = measured::offloaded_note(&summary) {
            write!(f, ", but {elsewhere}")?;
        }
        if let Some(asked) = measured::memory_asked(Some(&self.0.resources)) {
            let of = if asked.is_limit { ", limit" } else { ", asked for" };
            let share = measured::need_of_ask_words(&summary).unwrap_or_default();
            write!(f, "{of} {} ({share})", bytes(asked.bytes))?;
        }
        match measured::memory_peak_words(&summary) {
            Some(mark) => write!(f, ", {mark}"),
            None => Ok(()),
        }
    }
}

impl ReportLine<'_> {
    fn write_samples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.measures_only {
            return Ok(());
        }
        if self.0.delivery.delivered {
            write!(f, ", samples delivered as {}", self.0.attempt)?;
        } else if let Some(kept) = &self.0.delivery.kept {
            write!(f, ", samples of {} kept for the next run in {}", self.0.attempt, kept.display())?;
        } else {
            write!(f, ", samples of {} not delivered", self.0.attempt)?;
        }
        if self.0.delivery.lost > 0 {
            write!(f, ", {} lost", self.0.delivery.lost)?;
        }
        match &self.0.delivery.problem {
            Some(problem) => write!(f, ": {problem}"),
            None => Ok(()),
        }
    }
}

/// Most characters of the log line that is shown below: two rows of a terminal.
const FAILURE_CHARS: usize = 140;

/// The verdict below the line: what to do, and the log line that identifies the failure, or the reason if there
/// is none. An unknown cause has both, because the reason says how to find it. The log line may be cut, the
/// reason is not. Empty for a build that passed or has no verdict.
pub(super) fn short_verdict(facts: &BuildFacts) -> String {
    let Some(verdict) = &facts.advice.verdict else {
        let problem = facts.advice.problem.as_ref();
        return problem
            .map(|why| format!("\nplimsoll: no verdict: {}", shown::clean(why)))
            .unwrap_or_default();
    };
    let failure = outlook::failure_lines(verdict).first().map(|line| shortened(line));
    let is_why = failure.is_none() || verdict.cause() == Cause::Unknown;
    let reason = Some(shown::clean(&verdict.reason))
        .filter(|why| is_why && !why.is_empty() && !is_of_success(verdict));
    let lines = [Some(verdict::first_line(verdict)), failure, reason].into_iter().flatten();
    lines.flat_map(|line| ["\nplimsoll: ".to_owned(), line]).collect()
}

/// The text, cut to [`FAILURE_CHARS`]; `plimsoll show` prints all of it.
fn shortened(text: &str) -> String {
    if text.chars().count() <= FAILURE_CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(FAILURE_CHARS).collect();
    format!("{} ...", begin.rsplit_once(' ').map_or(begin.as_str(), |(words, _cut)| words))
}
