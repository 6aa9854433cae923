//! Rows that were refused: all are counted, and the first few are listed.

use std::fmt;

/// Most refusals that are listed.
const LISTED_REFUSALS: usize = 10;
/// Unit of the numbers in refusals of Prometheus' history: "build 3 was refused".
pub(super) const BUILD_UNIT: &str = "build";

/// Why a row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRefusal {
    /// Line of the file, counted from 1; for Prometheus the number of the build.
    pub line: u64,
    /// Name of the invalid column.
    pub column: &'static str,
    /// What is wrong with the value, and what would be valid.
    pub reason: String,
}

/// The rows that were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    /// What is counted, for the message: lines, or builds.
    pub(super) unit: &'static str,
    /// Number of refused rows.
    pub count: u64,
    /// The first refusals.
    pub first: Vec<RowRefusal>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { unit: "line", count: 0, first: Vec::new() }
    }
}

impl Refusals {
    /// No refusals yet; `unit` is the name of what is counted.
    pub(super) fn of(unit: &'static str) -> Self {
        Self { unit, ..Self::default() }
    }

    /// Counts a refusal, and lists it if it is among the first.
    pub fn add(&mut self, refusal: RowRefusal) {
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
