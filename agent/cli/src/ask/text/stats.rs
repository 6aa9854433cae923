//! Prints statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    WireEnum as _,
    figures::{self, amount, count},
    shown::clean,
    sums, times,
    v1::{Filter, GetStatsRequest, GetStatsResponse, Group, GroupBy, StatsTotals, Step},
};

use super::{
    regressions, section,
    table::{Cell, Column, Table},
    titled_line, totals,
};
use crate::ask::{
    filter_words, numbers,
    terminal_style::{Paint, TerminalStyle},
};

/// Most groups that are shown.
const SHOWN_GROUPS: usize = 30;

/// Most columns of a line that draws totals over time.
const COLUMNS: usize = 60;

/// Totals, a row for each group, lines over time, and findings.
pub(in crate::ask) fn render_stats(
    asked: &GetStatsRequest,
    stats: &GetStatsResponse,
    look: TerminalStyle,
) -> String {
    let sums = stats.totals.clone().unwrap_or_default();
    let filter = asked.filter.clone().unwrap_or_default();
    if sums.attempts == 0 {
        return nothing_found(&filter) + &coverage(stats) + &notes(stats, look);
    }
    let head = if filter == Filter::default() {
        String::new()
    } else {
        titled_line("of", &filter_words::filter_words(&filter))
    };
    let by = match asked.group_by() {
        GroupBy::Label => clean(&asked.group_label),
        by => by.word().replace('_', " "),
    };
    head + &totals::totals_lines(&sums, &stats.currency, look)
        + &over_time(&stats.steps, asked.step_ms, look)
        + &groups_table(stats, &by, look)
        + &regressions::finding_sections(stats, look)
        + &notes(stats, look)
}

/// How many attempts the server has at all, and since when; shown if the query matches none.
fn coverage(stats: &GetStatsResponse) -> String {
    let Some(all) = stats.coverage.filter(|all| all.attempts > 0) else { return String::new() };
    let (first, last) = (times::date_time(all.first_ended_unix_ms), times::date_time(all.last_ended_unix_ms));
    format!("attempts counted here: {}, which ended from {first} to {last} UTC\n", count(all.attempts))
}

/// The server's notes on what the numbers leave out.
fn notes(stats: &GetStatsResponse, look: TerminalStyle) -> String {
    let note = |note: &String| look.paint(Paint::Warn, &format!("note: {}", clean(note))) + "\n";
    stats.notes.iter().map(note).collect()
}

/// The text for a query that matches nothing, with a suggestion.
pub(super) fn nothing_found(filter: &Filter) -> String {
    if *filter == Filter::default() {
        return "no attempts have ended here yet\n".to_owned();
    }
    format!(
        "no attempts match: {}\nnames are compared as they are, letter by letter; `plimsoll attempts` lists what is there\n",
        filter_words::filter_words(filter)
    )
}

fn groups_table(stats: &GetStatsResponse, by: &str, look: TerminalStyle) -> String {
    if stats.groups.is_empty() {
        return String::new();
    }
    let money = !stats.currency.is_empty();
    // if no attempt reported its request, waste is unknown, and the use is shown instead
    let wasted = stats.totals.as_ref().is_some_and(|totals| sums::memory_asked(totals).is_some());
    let mut columns = vec![
        Column::number_column(if wasted { "wasted GiB·h" } else { "used GiB·h" }, 0),
        Column::number_column("used", 2),
        Column::number_column("need/ask", 5),
        Column::number_column("wasted core·h", 4),
    ];
    if money {
        columns.push(Column::number_column("wasted money", 6));
    }
    columns.extend([
        Column::number_column("attempts", 1),
        Column::number_column("failed", 1),
        Column::number_column("oom", 3),
        Column::number_column("peak", 3),
        Column::text_column("name", 0, 8),
    ]);
    let mut table = Table::new(columns);
    for group in stats.groups.iter().take(SHOWN_GROUPS) {
        table.add_row(row(group, wasted, money));
    }
    let title = format!("by {by}, the largest {} first", if wasted { "waste" } else { "use" });
    let mut text = section(&title, &table.render(look), look);
    let rest = stats.groups.len().saturating_sub(SHOWN_GROUPS);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more with less (all with -o json)");
    }
    text
}

fn row(group: &Group, wasted: bool, money: bool) -> Vec<Cell> {
    let sums = group.totals.clone().unwrap_or_default();
    let used = sums::memory_used_share(&sums);
    let slack = used.is_some_and(|used| used < 0.5);
    let sum = |sum: Option<f64>| figures::cell(sum, amount);
    let bad = |count: u64| if count > 0 { Paint::Bad } else { Paint::Plain };
    let mut cells = vec![
        sum(if wasted { sums::memory_wasted_hours(&sums) } else { sums::memory_used(&sums) }).into(),
        Cell::painted(figures::cell(used, figures::percent), if slack { Paint::Warn } else { Paint::Plain }),
        sums::need_over_ask_cell(&sums).into(),
        sum(sums::cpu_wasted_hours(&sums)).into(),
    ];
    if money {
        let any = sums::memory_asked(&sums).or_else(|| sums::cpu_asked(&sums));
        cells.push(sum(any.map(|_| sums.wasted_money)).into());
    }
    cells.extend([
        count(sums.attempts).into(),
        Cell::painted(count(sums.failed), bad(sums.failed)),
        Cell::painted(count(sums.oom), bad(sums.oom)),
        sums::highest_need_cell(&sums).into(),
        if group.name.is_empty() {
            Cell::painted("(none)".to_owned(), Paint::Faint)
        } else {
            clean(&group.name).into()
        },
    ]);
    cells
}

/// A line over time for each total that is not always 0.
fn over_time(steps: &[Step], step_ms: u64, look: TerminalStyle) -> String {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return String::new() };
    let sums: Vec<_> = steps.iter().map(|step| step.totals.clone().unwrap_or_default()).collect();
    let cells = look.drawing_columns(40, COLUMNS);
    let end = last.from_unix_ms.saturating_add(step_ms);
    let (from, to) = (times::date_time(first.from_unix_ms), times::date_time(end));
    let mut text = "\n".to_owned();
    text.push_str(&titled_line(
        "over time",
        &format!("{from} to {to} UTC, in steps of {}", figures::in_one_unit(step_ms)),
    ));
    let counts = |name: &str, of: &dyn Fn(&StatsTotals) -> u64| {
        let values: Vec<u64> = sums.iter().map(of).collect();
        let most = values.iter().copied().max().filter(|most| *most > 0)?;
        let line = numbers::sparkline(&values, cells, None);
        Some(titled_line(name, &format!("{line}  at most {}", count(most))))
    };
    let drawn = [
        counts("attempts", &|sums| sums.attempts),
        counts("failed", &|sums| sums.failed),
        counts("oom", &|sums| sums.oom),
    ];
    text.extend(drawn.into_iter().flatten());
    let wasted: Vec<f64> = sums.iter().map(|sums| sums.memory_wasted_gib_hours).collect();
    let most = wasted.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        let line = numbers::sparkline_of(&wasted, cells, 0.0);
        text.push_str(&titled_line("wasted", &format!("{line}  at most {}", figures::gib_hours(most))));
    }
    text
}
