//! What is said at the end of a build, for the person who reads the job's log, and for programs.
//!
//! | style | what it is |
//! |---|---|
//! | line | one line ([`line`]) |
//! | text | a page: sizes, a curve of the memory, the phases, advice for the next run ([`text`], [`curve`]); folded in GitLab |
//! | none | nothing |
//! | a file | the same in JSON ([`json`]), besides one of the others |
//!
//! Plain text without colours, because nobody knows where a job's log is read.

mod advice;
mod curve;
mod json;
mod line;
mod text;
mod words;

use std::{path::PathBuf, time::Duration};

use plimsoll_proto::v1::{Exit, Phase, Resources, Totals};

use crate::{clock, delivery};

pub(crate) use advice::{Advice, Wanted, ask};
pub(crate) use json::write as write_file;
pub(crate) use line::name;
pub(crate) use words::clean;

/// How much is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// Nothing.
    None,
    /// One line.
    #[default]
    Line,
    /// A page.
    Text,
}

/// What is said, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// On stderr.
    pub style: Style,
    /// A page is folded, by marks that GitLab understands.
    pub fold: bool,
    /// The reader's terminal shows more than ASCII.
    pub utf8: bool,
    /// Where a JSON file is written.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// Whether the server is asked what it thinks of the build.
    pub(crate) fn wants_advice(&self) -> bool {
        self.style == Style::Text || self.file.is_some()
    }
}

/// How a measurement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With the command; code and signal are both absent if nobody saw it.
    Exited(Exit),
    /// Somebody else's build was followed until this happened; its exit is not known.
    Followed(String),
}

impl End {
    /// The exit, if it was seen.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self {
            Self::Exited(exit) => Some(*exit).filter(|exit| exit.code.is_some() || exit.signal.is_some()),
            Self::Followed(_) => None,
        }
    }
}

impl Default for End {
    fn default() -> Self {
        Self::Exited(Exit::default())
    }
}

/// Everything that is known of a build that has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// What was built, in few words.
    pub(crate) name: String,
    pub(crate) end: End,
    pub(crate) wall: Duration,
    pub(crate) totals: Totals,
    /// What was asked for, and the limits in force.
    pub(crate) resources: Resources,
    pub(crate) phases: Vec<Phase>,
    /// The need over the time of the build, in equal parts.
    pub(crate) curve: Vec<u64>,
    pub(crate) attempt: String,
    /// Number of the attempt; 0 counts as 1.
    pub(crate) number: u32,
    /// The attempt that this one retries; may be empty.
    pub(crate) retries: String,
    pub(crate) delivery: delivery::Report,
    /// Samples go nowhere, on purpose.
    pub(crate) measures_only: bool,
    pub(crate) advice: Advice,
}

impl Facts {
    /// The phase that needed most.
    fn peak_phase(&self) -> Option<&Phase> {
        let peak = self.phases.iter().map(|phase| phase.need_peak_bytes).max().filter(|&peak| peak > 0)?;
        self.phases.iter().find(|phase| phase.need_peak_bytes == peak)
    }
}

/// What goes to stderr, without the last line feed; `None` if nothing does.
pub(crate) fn render(facts: &Facts, settings: &Settings) -> Option<String> {
    match settings.style {
        Style::None => None,
        Style::Line => Some(line::Line(facts).to_string()),
        Style::Text if settings.fold => {
            let (now, head) = (clock::unix_ms() / 1000, line::Head(facts));
            let body = text::body(facts, settings.utf8);
            // sections of one log need different names
            let section = match facts.number {
                0 | 1 => "plimsoll".to_owned(),
                number => format!("plimsoll_{number}"),
            };
            // the marks that GitLab's log viewer folds by; the second one must begin a line
            Some(format!(
                "\x1b[0Ksection_start:{now}:{section}[collapsed=true]\r\x1b[0K{head}\n{body}\
                 \x1b[0Ksection_end:{now}:{section}\r\x1b[0K"
            ))
        }
        Style::Text => {
            let page = format!("{}\n{}", line::Head(facts), text::body(facts, settings.utf8));
            Some(page.trim_end().to_owned())
        }
    }
}
