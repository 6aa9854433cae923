//! Compares two attempts row by row: key, result and measurements.

mod table;

use plimsoll_proto::{
    facts::{self, Line},
    figures, measured,
    shown::clean,
    v1::GetAttemptResponse,
};

use super::text;
pub(super) use table::render_comparison;

/// One value of each of two attempts, as text; empty for an attempt that has no such value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct ComparisonRow {
    /// Name of the row: what is compared.
    pub(super) name: String,
    /// The value of the first attempt.
    pub(super) first: String,
    /// The value of the second attempt.
    pub(super) second: String,
}

impl ComparisonRow {
    /// Whether the two attempts have different values.
    pub(super) fn differs(&self) -> bool {
        self.first != self.second
    }
}

/// All rows with a value in at least one attempt, in the order of the first. What only the second has comes after the row before it there.
pub(super) fn rows(first: &GetAttemptResponse, second: &GetAttemptResponse) -> Vec<ComparisonRow> {
    let row = |(name, first)| ComparisonRow { name, first, second: String::new() };
    let mut rows: Vec<ComparisonRow> = values(first).into_iter().map(row).collect();
    let mut place = 0;
    for (name, second) in values(second) {
        if let Some((at, row)) = rows.iter_mut().enumerate().find(|(_, row)| row.name == name) {
            row.second = second;
            place = at + 1;
        } else {
            rows.insert(place, ComparisonRow { name, first: String::new(), second });
            place += 1;
        }
    }
    rows
}

/// The key, the facts, the phases by name, and the first line of the verdict in force.
fn values(shown: &GetAttemptResponse) -> Vec<(String, String)> {
    let summary = shown.summary.clone().unwrap_or_default();
    let key = summary.key.clone().unwrap_or_default().facts();
    let key = key.into_iter().map(|(name, value)| (clean(&name), clean(&value)));
    let facts = facts::listed(&summary, &Line::ALL).into_iter();
    let facts = facts.map(|(fact, value)| (fact.name.to_owned(), value));
    let phases = measured::phases_by_name(&summary.phases).into_iter().map(|sum| {
        let (time, need) = (figures::millis(sum.wall_ms), measured::phase_need_cell(&sum));
        (format!("phase {}", clean(&sum.name)), format!("{time}, needed {need}"))
    });
    let verdict = shown.verdict.iter().map(|verdict| {
        let text = text::render_verdict(verdict);
        ("verdict".to_owned(), text.lines().next().unwrap_or_default().to_owned())
    });
    key.chain(facts).chain(phases).chain(verdict).collect()
}
