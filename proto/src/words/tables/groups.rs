//! Groups of attempts, such as packages, as tables of what they used, requested and wasted.

use super::{
    FactCell::{self, Choice, Number, Package, Painted, Text, Unknown},
    FactTable, Paint,
};
use crate::{
    figures::{self, amount, cell, count, float, millis, percent, share_of},
    sums,
    v1::{Group, StatsTotals},
};

/// A column: its heading, the number by which it sorts, and its cell.
pub type GroupColumn = (&'static str, fn(&StatsTotals) -> f64, fn(&StatsTotals) -> FactCell);

/// All columns that a table of groups can have.
#[rustfmt::skip]
const GROUP_COLUMNS: &[GroupColumn] = &[
    ("wasted GiB·h", |of| of.memory_wasted_gib_hours, |of| sum(sums::memory_wasted_hours(of))),
    ("asked GiB·h", |of| of.memory_asked_gib_hours, |of| sum(sums::memory_asked(of))),
    ("used GiB·h", |of| of.memory_used_gib_hours, |of| sum(sums::memory_used(of))),
    ("put to use", |of| sums::memory_used_share(of).unwrap_or(0.0), put_to_use),
    ("need/ask", |of| of.need_over_ask_mean, |of| Number(sums::need_over_ask_cell(of))),
    ("wasted core·h", |of| of.cpu_wasted_core_hours, |of| sum(sums::cpu_wasted_hours(of))),
    ("CPU core·h", |of| of.cpu_core_hours, |of| sum(sums::cpu_time(of))),
    ("wasted money", |of| of.wasted_money, |of| sum(sums::memory_asked(of).or(sums::cpu_asked(of)).map(|_| of.wasted_money))),
    ("attempts", |of| float(of.attempts), |of| Number(count(of.attempts))),
    ("failed", |of| float(of.failed) / float(of.attempts.max(1)), failed),
    ("oom", |of| float(of.oom), |of| Painted(bad(of.oom), count(of.oom))),
    ("highest need", |of| float(of.need_peak_max_bytes), |of| Number(sums::highest_need_cell(of))),
    ("mean time", |of| sums::mean_wall_ms(of).unwrap_or(0.0), |of| Number(cell(sums::mean_wall_ms(of), |ms| millis(figures::to_whole(ms))))),
];

/// The column with this heading.
pub fn group_column(heading: &str) -> Option<&'static GroupColumn> {
    GROUP_COLUMNS.iter().find(|(name, ..)| *name == heading)
}

/// A row for each group, with the columns of these headings. `by`: what names a group.
pub fn groups<'g>(
    by: &'static str,
    groups: impl IntoIterator<Item = &'g Group>,
    headings: &[&'static str],
) -> FactTable {
    let columns: Vec<_> = headings.iter().filter_map(|heading| group_column(heading)).collect();
    let row = |group: &Group| {
        let name = match (by, group.name.clone()) {
            ("name", name) if name.is_empty() => Text("(none)".to_owned()),
            (_, name) if name.is_empty() => Unknown,
            ("package", name) => Package(name),
            ("project" | "stack", name) => Choice(by, name),
            (_, name) => Text(name),
        };
        let totals = group.totals.clone().unwrap_or_default();
        std::iter::once(name).chain(columns.iter().map(|(.., cell)| cell(&totals))).collect()
    };
    let rows = groups.into_iter().map(row).collect();
    let headings = std::iter::once(by).chain(columns.iter().map(|(name, ..)| *name)).collect();
    FactTable { columns: headings, rows, note: "" }
}

fn sum(sum: Option<f64>) -> FactCell {
    Number(cell(sum, amount))
}

fn bad(count: u64) -> Paint {
    if count > 0 { Paint::Bad } else { Paint::Plain }
}

fn put_to_use(of: &StatsTotals) -> FactCell {
    let share = sums::memory_used_share(of);
    let is_little = share.is_some_and(|share| share < 0.5);
    Painted(if is_little { Paint::Warn } else { Paint::Plain }, cell(share, percent))
}

fn failed(of: &StatsTotals) -> FactCell {
    let share =
        if of.failed > 0 { format!(" ({})", share_of(of.failed, of.attempts)) } else { String::new() };
    Painted(bad(of.failed), count(of.failed) + &share)
}
