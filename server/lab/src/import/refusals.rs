//! Rows that were not taken: all are counted, the first few are listed.

use std::fmt;

/// How many are listed in full.
const LISTED_REFUSALS: usize = 10;
/// What is counted of Prometheus' history.
pub(super) const BUILD_UNIT: &str = "build";

/// Why a row was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Line of the file, from 1; the row's id in a database; which of the builds that Prometheus saw.
    pub line: u64,
    /// Column that is wrong.
    pub column: &'static str,
    /// What is wrong and what would be right.
    pub reason: String,
}

/// The rows that were not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    /// What is counted: lines, or the rows of a table.
    pub(super) unit: &'static str,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Refusal>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { unit: "line", count: 0, first: Vec::new() }
    }
}

impl Refusals {
    /// None yet, of what is counted so.
    pub(super) fn of(unit: &'static str) -> Self {
        Self { unit, ..Self::default() }
    }

    /// Counts one, and keeps it if it is among the first.
    pub fn add(&mut self, refusal: Refusal) {
        self.count += 1;
        if self.first.len() < LISTED_REFUSALS {
            self.first.push(refusal);
        }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for refusal in &self.first {
            writeln!(f, "{} {}, {}: {}", self.unit, refusal.line, refusal.column, refusal.reason)?;
        }
        let shown = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        if self.count > shown {
            writeln!(f, ".. and {} more", self.count - shown)?;
        }
        let what = if self.unit == BUILD_UNIT { BUILD_UNIT } else { "row" };
        let end = if self.count == 1 { "" } else { "s" };
        write!(f, "{} {what}{end} refused", self.count)
    }
}
