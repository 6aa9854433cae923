//! Prints the need of a build at different numbers of build jobs, for people.

use plimsoll_proto::{shown::clean, tables, v1::JobsCurve};

/// A row for each number of build jobs, then the conclusions.
pub(super) fn render(curve: &JobsCurve) -> String {
    let table = tables::jobs_curve(curve);
    let mut text = if table.rows.is_empty() { String::new() } else { table.lines() };
    if !curve.reason.is_empty() {
        // each clause gets a line of its own, because one long line is hard to read
        let reason = clean(&curve.reason);
        reason.split("; ").for_each(|clause| text.extend([clause, "\n"]));
    }
    text
}
