//! The report at the end of a build, for the reader of the job's log and for programs.
//!
//! | style | content |
//! |---|---|
//! | line | one line ([`line`]) |
//! | text | a page: sizes, a memory curve, the phases, advice for the next run ([`text`]); folded where the CI system's log viewer can, except for the verdict |
//! | none | nothing |
//! | a file | the same as JSON ([`json`]), in addition to one of the others |
//!
//! Plain text without colours, because a job's log may be read anywhere.

mod advice;
mod json;
mod line;
#[cfg(test)]
mod recorded;
mod text;
mod words;

use std::{path::PathBuf, time::Duration};

use plimsoll_base::ci::CiSystem;
use plimsoll_client::delivery;
use plimsoll_measure::clock;
use plimsoll_proto::shown::clean;
use plimsoll_proto::v1::{
    Cause, Exit, LargestProcess, OomOrigin, Outcome, Phase, Rescue, Resources, Source, Summary, Totals,
};

pub(crate) use advice::{Advice, AdviceRequest, ask};
pub(crate) use json::write as write_file;
pub(crate) use line::name;

/// How long the report on standard error is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// No report is written.
    None,
    /// The report is one line.
    #[default]
    Line,
    /// The report is a page.
    Text,
}

/// Which reports to write, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The report on standard error.
    pub style: Style,
    /// The CI system whose log viewer folds a page by its marks, if it has such marks.
    pub fold: Option<&'static CiSystem>,
    /// Whether the terminal shows characters outside ASCII.
    pub utf8: bool,
    /// Columns of a line; `None` for a file or a pipe, where lines may have any length.
    pub columns: Option<usize>,
    /// The file for the JSON report, if wanted.
    pub file: Option<PathBuf>,
    /// Whether a short verdict follows the line if the build failed: for a person at a terminal.
    pub short_verdict: bool,
}

impl Settings {
    /// Whether a verdict on a failed build is shown.
    pub(crate) fn wants_verdict(&self) -> bool {
        self.short_verdict || self.wants_advice()
    }

    /// Whether this report needs advice from the server.
    pub(crate) fn wants_advice(&self) -> bool {
        self.style == Style::Text || self.file.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MeasurementEnd {
    /// The command exited. Code and signal are both absent if its exit status was not seen.
    Exited(Exit),
    /// A build that the agent did not start has ended, noticed in this way; its exit status is unknown.
    Ended(&'static str),
    /// The agent stopped following the build because of this event; the build may continue.
    Followed(String),
}

impl MeasurementEnd {
    /// The exit status, if it is known.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self {
            Self::Exited(exit) => Some(*exit).filter(|exit| exit.code.is_some() || exit.signal.is_some()),
            Self::Ended(_) | Self::Followed(_) => None,
        }
    }

    /// Whether the agent saw the build end.
    pub(crate) fn is_seen(&self) -> bool {
        matches!(self, Self::Ended(_)) || self.exit().is_some()
    }
}

impl Default for MeasurementEnd {
    fn default() -> Self {
        Self::Exited(Exit::default())
    }
}

/// What is known of a build when its measurement ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuildFacts {
    /// Sentences about where the key is from.
    pub(crate) notes: Vec<String>,
    /// A short name of the build, for the report.
    pub(crate) name: String,
    pub(crate) end: MeasurementEnd,
    pub(crate) wall: Duration,
    pub(crate) totals: Totals,
    /// What measured the build: a cgroup, or its processes.
    pub(crate) source: Source,
    /// Name of the service that did the work elsewhere; empty if the build did the work itself.
    pub(crate) offloaded_to: String,
    /// Requested resources, and the limits in force at the end.
    pub(crate) resources: Resources,
    /// The memory limit that the build began with, bytes.
    pub(crate) limit_at_start: Option<u64>,
    pub(crate) phases: Vec<Phase>,
    /// The memory need over time: the highest need in each of many equal parts of the build.
    pub(crate) curve: Vec<u64>,
    /// The process that used most memory, if any could be seen.
    pub(crate) largest_process: Option<LargestProcess>,
    /// What rescue did, or would have done; `None` if it was off, or had nothing to do.
    pub(crate) rescue: Option<Rescue>,
    pub(crate) attempt: String,
    /// Number of the attempt; 0 counts as 1.
    pub(crate) number: u32,
    /// Id of the attempt that this one retries; may be empty.
    pub(crate) retries: String,
    pub(crate) delivery: delivery::DeliveryReport,
    /// Whether the user chose to send no samples.
    pub(crate) measures_only: bool,
    pub(crate) advice: Advice,
}

impl BuildFacts {
    /// The attempt as the server would summarize it, so that both show the same numbers.
    pub(crate) fn summary(&self) -> Summary {
        let totals = &self.totals;
        let outcome = match self.end.exit() {
            Some(Exit { code: Some(0), .. }) => Outcome::Succeeded,
            None if self.end.is_seen() => Outcome::Ended,
            _ => Outcome::Failed,
        };
        let was_held_back = match &self.advice.verdict {
            Some(verdict) => matches!(verdict.cause(), Cause::Oom | Cause::Starved),
            None => advice::was_held_back(self),
        };
        // a machine without free memory kills builds of any size, so that shows nothing about the need
        let proves = totals.oom_origin() != OomOrigin::Host;
        Summary {
            attempt: self.attempt.clone(),
            source: self.source.into(),
            offloaded_to: self.offloaded_to.clone(),
            resources: Some(self.resources),
            memory_limit_at_start_bytes: totals.memory_limit_bytes.map(|_| self.limit_at_start.unwrap_or(0)),
            wall_ms: u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
            cpu_usec: Some(totals.cpu_usec),
            need_peak_bytes: totals.need_peak_bytes,
            memory_peak_bytes: totals.memory_peak_bytes,
            oom_kill: totals.oom_kill,
            oom_origin: totals.oom_origin,
            oom_group_kill: totals.oom_group_kill,
            starved_ms: totals.starved_ms,
            memory_stall_usec: totals.memory_stall_usec,
            throttled_usec: totals.throttled_usec,
            censored: was_held_back && proves && outcome != Outcome::Succeeded,
            outcome: outcome.into(),
            phases: self.phases.clone(),
            largest_process: self.largest_process.clone(),
            compilers_peak: totals.compilers_peak,
            rescue: self.rescue.clone(),
            peak_phase: self.peak_phase().map(|phase| phase.name.clone()).unwrap_or_default(),
            ..Summary::default()
        }
    }

    /// The phase with the highest memory need.
    fn peak_phase(&self) -> Option<&Phase> {
        let peak = self.phases.iter().map(|phase| phase.need_peak_bytes).max().filter(|&peak| peak > 0)?;
        self.phases.iter().find(|phase| phase.need_peak_bytes == peak)
    }
}

/// The report for standard error, without a line feed at its end; `None` if no report is wanted.
pub(crate) fn render(facts: &BuildFacts, settings: &Settings) -> Option<String> {
    match settings.style {
        Style::None => None,
        Style::Line => {
            let verdict = if settings.short_verdict { line::short_verdict(facts) } else { String::new() };
            Some(format!("{}{verdict}", line::ReportLine(facts)))
        }
        Style::Text => {
            let head = line::ReportHead(facts).to_string();
            let (measured, next) = (text::measured_lines(facts, settings), text::next_lines(facts));
            let Some((system, fold)) = settings.fold.and_then(|system| Some((system, system.fold?))) else {
                let page = format!("{head}\n{measured}{}{next}", text::verdict_lines(facts));
                return Some(page.trim_end().to_owned());
            };
            let body = system.plain(&(measured + &next));
            // the verdict is the most important part, so it is outside of the fold
            let verdict = system.plain(&text::verdict_lines(facts));
            let verdict = if verdict.is_empty() { verdict } else { format!("\n{}", verdict.trim_end()) };
            let marked = facts.advice.verdict.as_ref().and_then(text::annotated);
            let marked = marked.and_then(|text| system.annotation(&clean(&text)));
            let marked = marked.map(|line| format!("\n{line}")).unwrap_or_default();
            // the sections of one log must have different names
            let section = match facts.number {
                0 | 1 => "plimsoll".to_owned(),
                number => format!("plimsoll_{number}"),
            };
            let (start, end) = fold(clock::unix_ms() / 1000, &section, &head);
            Some(format!("{start}\n{body}{end}{verdict}{marked}"))
        }
    }
}
