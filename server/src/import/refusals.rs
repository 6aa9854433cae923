//! Rows that were not taken: all are counted, the first few are told.

use std::fmt;

/// How many are told in full.
const TOLD: usize = 10;

/// Why a row was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Line of the file, from 1; the row's id in a database.
    pub(crate) line: u64,
    /// Column that is wrong.
    pub(crate) column: &'static str,
    /// What is wrong and what would be right.
    pub(crate) reason: String,
}

/// The rows that were not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// What is counted: lines, or the rows of a table.
    pub(super) unit: &'static str,
    /// How many.
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) first: Vec<Refusal>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { unit: "line", count: 0, first: Vec::new() }
    }
}

impl Refusals {
    pub(crate) fn add(&mut self, refusal: Refusal) {
        self.count += 1;
        if self.first.len() < TOLD {
            self.first.push(refusal);
        }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for refusal in &self.first {
            writeln!(f, "{} {}, {}: {}", self.unit, refusal.line, refusal.column, refusal.reason)?;
        }
        let told = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        if self.count > told {
            writeln!(f, ".. and {} more", self.count - told)?;
        }
        let rows = if self.count == 1 { "row" } else { "rows" };
        write!(f, "{} {rows} refused", self.count)
    }
}
