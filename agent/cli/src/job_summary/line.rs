//! The report in one line: what the build used, its limits, and where its samples are.

use std::{ffi::OsString, fmt, path::Path};

use plimsoll_proto::{
    facts::{self, Line},
    figures, measured, shown,
    v1::{Cause, Key},
    verdict,
};

use super::{BuildFacts, MeasurementEnd, words};
use crate::ask::text::cleaned_row;

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
        write!(f, "{}; CPU {}", ReportHead(self.0), facts::sentence(&self.0.summary(), Line::Cpu))?;
        if self.0.measures_only { Ok(()) } else { write!(f, "; samples {}", words::samples(self.0)) }
    }
}

/// The first part of the line: result and memory. A folded report has it as its heading.
#[derive(Debug)]
pub(super) struct ReportHead<'a>(pub(super) &'a BuildFacts);

impl fmt::Display for ReportHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plimsoll: {} {}", self.0.name, self.0.end)?;
        let comma = if matches!(self.0.end, MeasurementEnd::Followed(_)) { "," } else { " after" };
        let summary = self.0.summary();
        write!(f, "{comma} {}", figures::millis(summary.wall_ms))?;
        for line in [Line::Killed, Line::Memory] {
            let sentence = facts::sentence(&summary, line);
            if !sentence.is_empty() {
                write!(f, "; {sentence}")?;
            }
        }
        let is_stopped = summary.censored || summary.oom_kill.unwrap_or(0) > 0;
        if let Some(largest) = measured::largest_process(&summary).filter(|_| is_stopped) {
            write!(f, "; largest: {largest}")?;
        }
        let rescued = facts::sentence(&summary, Line::Rescue);
        if !rescued.is_empty() {
            write!(f, "; rescue {rescued}")?;
        }
        measured::offloaded_note(&summary).map_or(Ok(()), |elsewhere| write!(f, ", but {elsewhere}"))
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
    let rows = verdict::rows(verdict);
    let has_failure = rows.iter().any(|(name, _)| *name == "failure");
    let is_why = !has_failure || verdict.cause() == Cause::Unknown;
    let lines = rows.into_iter().enumerate().filter_map(|(nth, row)| match row.0 {
        "failure" => Some(shortened(&cleaned_row(row))),
        "" if nth == 0 || is_why => Some(cleaned_row(row)),
        _ => None,
    });
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
