//! Lists of attempts, groups of attempts and findings as tables. A table is made once from the messages; the terminal and the page draw it,
//! and make its text safe to show.
//!
//! A later column matters less: a narrow terminal drops the last ones first.

mod attempts;
mod draw;
mod findings;
mod groups;

use crate::{
    figures::{NOT_KNOWN, count},
    times,
    v1::Cause,
};

pub use attempts::{attempts, build_name, earlier_verdicts, phases, result, running};
pub use findings::{FAILING_LINES, failing_lines, findings, jobs_curve, part_effects, used_attempts};
pub use groups::{GroupColumn, group_column, groups};

/// A table of facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FactTable {
    /// The heading of each column, in lower case.
    pub columns: Vec<&'static str>,
    /// The rows, each with a cell for each column. The first cell names the row.
    pub rows: Vec<Vec<FactCell>>,
    /// What the marks in its cells mean; may be empty.
    pub note: &'static str,
}

/// What a text means, for its colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paint {
    /// Text without a special meaning.
    #[default]
    Plain,
    /// The head of a table or of a section.
    Head,
    /// Less important text.
    Faint,
    /// Text about something good.
    Good,
    /// Text about something that needs attention.
    Warn,
    /// Text about something broken or lost.
    Bad,
}

/// A cell of a [`FactTable`]. All cells of a column are of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum FactCell {
    /// Text.
    Text(String),
    /// Text that a terminal shows below its row, behind the heading of its column.
    Long(String),
    /// A sentence; names between backquotes are marked, where that is possible.
    Marked(String),
    /// A number with its unit.
    Number(String),
    /// A number with its unit and a meaning.
    Painted(Paint, String),
    /// A number that is this part of a whole, 0 to 1; a page draws it.
    Share(f64, Paint, String),
    /// How an attempt ended, or what it does, and the line of its log that says why; the line may be empty.
    Result(Paint, String, String),
    /// The name of a package, which has a page.
    Package(String),
    /// The name of a project or stack, with the field of a filter that chooses it.
    Choice(&'static str, String),
    /// A number of failures, with their cause, project and signature: they have a page. An empty text is any.
    Failures(u64, Cause, String, String),
    /// The key of a build, and the name of its package.
    Build(String, String),
    /// The id of an attempt, which has a page, with words before it and a note behind it.
    Attempt(&'static str, String, String),
    /// Names of packages, and how many more there are: ` and 3 more`.
    Packages(Vec<String>, String),
    /// The id of an attempt, which has a page, and when it ended, milliseconds since 1970.
    Ended(String, u64),
    /// A line of a log, and the project that it is of, if that is shown.
    LogLine(String, String),
    /// A text that is not known.
    Unknown,
}

impl FactCell {
    /// The text of the cell in one line.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text)
            | Self::Long(text)
            | Self::Marked(text)
            | Self::Number(text)
            | Self::Painted(_, text)
            | Self::Share(_, _, text)
            | Self::Result(_, text, _)
            | Self::Package(text)
            | Self::Choice(_, text)
            | Self::Build(text, _)
            | Self::LogLine(text, _) => text.clone(),
            Self::Failures(number, ..) => count(*number),
            Self::Packages(names, more) => names.join(", ") + more,
            Self::Ended(_, unix_ms) => times::date_time(*unix_ms),
            Self::Unknown => NOT_KNOWN.to_owned(),
            Self::Attempt(words, id, note) => {
                let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
                format!("{words} {id}{note}").trim_start().to_owned()
            }
        }
    }

    /// What the text means.
    pub fn paint(&self) -> Paint {
        match self {
            // a result is never less important
            Self::Result(Paint::Faint, ..) => Paint::Warn,
            Self::Painted(paint, _) | Self::Share(_, paint, _) | Self::Result(paint, ..) => *paint,
            Self::Unknown => Paint::Faint,
            _ => Paint::Plain,
        }
    }

    /// Whether the cell is aligned as a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Painted(..) | Self::Share(..) | Self::Failures(..))
    }

    /// Whether the cell is useless if it is cut.
    fn is_whole(&self) -> bool {
        self.is_number() || self.is_id() || matches!(self, Self::Ended(..))
    }

    /// Whether the cell is the id of an attempt, without words before it.
    fn is_id(&self) -> bool {
        matches!(self, Self::Attempt("", ..))
    }

    /// Whether the cell needs the room of a line.
    pub fn is_long(&self) -> bool {
        let is_sentence = matches!(self, Self::Attempt(words, ..) if !words.is_empty());
        is_sentence
            || matches!(self, Self::Long(_) | Self::Marked(_) | Self::LogLine(..) | Self::Packages(..))
    }
}

impl FactTable {
    /// The columns with these names, in this order.
    #[must_use]
    pub fn only(&self, columns: &[&'static str]) -> Self {
        let places = || columns.iter().filter_map(|name| self.columns.iter().position(|known| known == name));
        let of = |row: &Vec<FactCell>| places().filter_map(|place| row.get(place).cloned()).collect();
        let columns = places().filter_map(|place| self.columns.get(place).copied()).collect();
        Self { columns, rows: self.rows.iter().map(of).collect(), note: self.note }
    }

    /// The table with a note.
    #[must_use]
    fn noted(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// A table with a row for each of `items`.
pub fn table_of<T, const COLUMNS: usize>(
    columns: [&'static str; COLUMNS],
    items: impl IntoIterator<Item = T>,
    row: impl Fn(T) -> [FactCell; COLUMNS],
) -> FactTable {
    let rows = items.into_iter().map(|item| row(item).to_vec()).collect();
    FactTable { columns: columns.to_vec(), rows, note: "" }
}
