//! Statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures, sums,
    v1::{Filter, GetStatsRequest, GetStatsResponse, Group, StatsTotals, Step},
};

use super::{
    clean, moved,
    table::{Cell, Column, Table},
    titled, totals,
};
use crate::ask::{
    asked,
    look::{Look, Paint},
    numbers::{self, amount, count},
};

/// Groups that are shown.
const SHOWN: usize = 30;

/// Cells of the lines that draw sums over time.
const COLUMNS: usize = 60;

/// The totals, a row for each group, lines over time, and what stands out.
pub(in crate::ask) fn render_stats(asked: &GetStatsRequest, stats: &GetStatsResponse, look: Look) -> String {
    let sums = stats.totals.clone().unwrap_or_default();
    let filter = asked.filter.clone().unwrap_or_default();
    if sums.attempts == 0 {
        return nothing(&filter) + &coverage(stats) + &notes(stats, look);
    }
    let head =
        if filter == Filter::default() { String::new() } else { titled("of", &asked::filter(&filter)) };
    let by = if asked.group_label.is_empty() { "name".to_owned() } else { clean(&asked.group_label) };
    head + &totals::lines(&sums, &stats.currency, look)
        + &over_time(&stats.steps, asked.step_ms, look)
        + &groups(stats, &by, look)
        + &moved::parts(stats, look)
        + &notes(stats, look)
}

/// What the server counts at all, where the question matches nothing.
fn coverage(stats: &GetStatsResponse) -> String {
    let Some(all) = stats.coverage.filter(|all| all.attempts > 0) else { return String::new() };
    let (first, last) =
        (numbers::date_time(all.first_ended_unix_ms), numbers::date_time(all.last_ended_unix_ms));
    format!("attempts counted here: {}, which ended from {first} to {last} UTC\n", count(all.attempts))
}

/// What the numbers cannot tell.
pub(in crate::ask) fn notes(stats: &GetStatsResponse, look: Look) -> String {
    let note = |note: &String| look.paint(Paint::Warn, &format!("note: {}", clean(note))) + "\n";
    stats.notes.iter().map(note).collect()
}

/// What is said where nothing matches, with a way on.
pub(super) fn nothing(filter: &Filter) -> String {
    if *filter == Filter::default() {
        return "no attempts have ended here yet\n".to_owned();
    }
    format!(
        "no attempts match: {}\nnames are compared as they are, letter by letter; `plimsoll attempts` lists what is there\n",
        asked::filter(filter)
    )
}

fn groups(stats: &GetStatsResponse, by: &str, look: Look) -> String {
    if stats.groups.is_empty() {
        return String::new();
    }
    let money = !stats.currency.is_empty();
    let mut columns = vec![
        Column::number("wasted GiB·h", 0),
        Column::number("used", 2),
        Column::number("need/ask", 5),
        Column::number("wasted core·h", 4),
    ];
    if money {
        columns.push(Column::number("wasted money", 6));
    }
    columns.extend([
        Column::number("attempts", 1),
        Column::number("failed", 1),
        Column::number("oom", 3),
        Column::number("peak", 3),
        Column::words("name", 0, 8),
    ]);
    let mut table = Table::new(columns);
    for group in stats.groups.iter().take(SHOWN) {
        table.row(row(group, money));
    }
    let title = format!("by {by}, the most wasteful first");
    let mut text = format!("\n{}\n{}", look.paint(Paint::Head, &title), table.render(look));
    let rest = stats.groups.len().saturating_sub(SHOWN);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more with less waste (all with -o json)");
    }
    text
}

/// A part of what was asked for; a dash where nothing was asked for, or it was not measured.
fn amount_of(part: f64, asked: f64) -> String {
    if asked > 0.0 { amount(part) } else { numbers::DASH.to_owned() }
}

fn row(group: &Group, money: bool) -> Vec<Cell> {
    let sums = group.totals.clone().unwrap_or_default();
    let used = sums::memory_used(&sums);
    let slack = used.is_some_and(|used| used < 0.5);
    let cell = |share: Option<f64>| share.map_or_else(|| numbers::DASH.to_owned(), numbers::percent);
    let bad = |count: u64| if count > 0 { Paint::Bad } else { Paint::Plain };
    let mut cells = vec![
        amount_of(sums.memory_wasted_gib_hours, sums.memory_asked_gib_hours).into(),
        Cell::painted(cell(used), if slack { Paint::Warn } else { Paint::Plain }),
        cell(sums::need_over_ask(&sums).map(|(mean, _)| mean)).into(),
        amount_of(sums.cpu_wasted_core_hours, sums.cpu_asked_core_hours).into(),
    ];
    if money {
        cells.push(amount(sums.wasted_money).into());
    }
    cells.extend([
        count(sums.attempts).into(),
        Cell::painted(count(sums.failed), bad(sums.failed)),
        Cell::painted(count(sums.oom), bad(sums.oom)),
        numbers::cell_bytes(sums::highest_need(&sums)).into(),
        if group.name.is_empty() {
            Cell::painted("(none)".to_owned(), Paint::Faint)
        } else {
            clean(&group.name).into()
        },
    ]);
    cells
}

/// A line for each sum over time that is not nothing all the time.
pub(in crate::ask) fn over_time(steps: &[Step], step_ms: u64, look: Look) -> String {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return String::new() };
    let sums: Vec<_> = steps.iter().map(|step| step.totals.clone().unwrap_or_default()).collect();
    let cells = look.room(40, COLUMNS);
    let end = last.from_unix_ms.saturating_add(step_ms);
    let (from, to) = (numbers::date_time(first.from_unix_ms), numbers::date_time(end));
    let mut text = "\n".to_owned();
    text.push_str(&titled(
        "over time",
        &format!("{from} to {to} UTC, in steps of {}", numbers::span(step_ms)),
    ));
    let counts = |name: &str, of: &dyn Fn(&StatsTotals) -> u64| {
        let values: Vec<u64> = sums.iter().map(of).collect();
        let most = values.iter().copied().max().filter(|most| *most > 0)?;
        let line = numbers::sparkline(&values, cells, None);
        Some(titled(name, &format!("{line}  at most {}", count(most))))
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
        let line = numbers::sparkline_of(&wasted, cells);
        text.push_str(&titled("wasted", &format!("{line}  at most {}", figures::gib_hours(most))));
    }
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Coverage;

    use super::*;

    fn shown(asked: &GetStatsRequest, stats: &GetStatsResponse, columns: Option<usize>) -> String {
        render_stats(asked, stats, Look { columns, colour: false })
    }

    fn stats() -> GetStatsResponse {
        let sums = StatsTotals {
            attempts: 4,
            failed: 1,
            oom: 1,
            memory_used_of_asked_gib_hours: 1.0,
            memory_asked_gib_hours: 4.0,
            memory_wasted_gib_hours: 3.0,
            need_over_ask_mean: 0.25,
            need_over_ask_max: 0.5,
            ..StatsTotals::default()
        };
        let group = |name: &str| Group { name: name.to_owned(), totals: Some(sums.clone()) };
        let step = |n: u64, attempts| Step {
            from_unix_ms: 1_763_683_200_000 + n * 86_400_000,
            totals: Some(StatsTotals { attempts, ..sums.clone() }),
        };
        GetStatsResponse {
            groups: vec![group("zlib"), group("<script>\u{1b}[2J"), group("")],
            steps: vec![step(0, 4), step(1, 8)],
            totals: Some(sums),
            ..GetStatsResponse::default()
        }
    }

    #[test]
    fn statistics_show_waste_by_group_and_over_time() {
        let asked = GetStatsRequest { step_ms: 86_400_000, ..GetStatsRequest::default() };
        let text = shown(&asked, &stats(), None);
        for line in [
            "of 4 GiB·h asked, 1 (25 %) put to use and 3 (75 %) wasted",
            "over time   2025-11-21 00:00 to 2025-11-23 00:00 UTC, in steps of 1 d\n",
            "attempts    ▄█  at most 8\n",
            "wasted      ██  at most 3 GiB·h\n",
            "           3  25 %      25 %              –         4       1    1     –  zlib\n",
            "  <script> [2J\n",
            "  (none)\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("money"), "{text}");
    }

    #[test]
    fn money_is_shown_where_something_has_a_price() {
        let stats = GetStatsResponse { currency: "EUR".to_owned(), ..stats() };
        assert!(shown(&GetStatsRequest::default(), &stats, None).contains("wasted money"));
    }

    #[test]
    fn a_narrow_terminal_has_no_line_of_a_table_that_breaks() {
        let asked = GetStatsRequest::default();
        for columns in [30, 40, 60, 80] {
            let text = shown(&asked, &GetStatsResponse { steps: vec![], ..stats() }, Some(columns));
            let table = text.split("first\n").nth(1).unwrap();
            assert!(table.lines().all(|line| line.chars().count() <= columns), "{columns}: {table}");
        }
    }

    #[test]
    fn a_filter_that_matches_nothing_is_said_to() {
        let filter = Some(Filter { package: "zlob".to_owned(), ..Filter::default() });
        let text = shown(
            &GetStatsRequest { filter, ..GetStatsRequest::default() },
            &GetStatsResponse::default(),
            None,
        );
        assert!(text.starts_with("no attempts match: package zlob\n"), "{text}");
        let text = shown(&GetStatsRequest::default(), &GetStatsResponse::default(), None);
        assert_eq!(text, "no attempts have ended here yet\n");
    }

    #[test]
    fn what_the_numbers_cannot_tell_is_said_and_what_there_is_where_nothing_matches() {
        let stats = GetStatsResponse {
            coverage: Some(Coverage {
                attempts: 1234,
                first_ended_unix_ms: 1_763_683_200_000,
                last_ended_unix_ms: 1_763_715_907_000,
                older_left_out: false,
            }),
            notes: vec!["older\u{1b} attempts are not counted".to_owned()],
            ..GetStatsResponse::default()
        };
        let text = shown(&GetStatsRequest::default(), &stats, None);
        let expected = "attempts counted here: 1,234, which ended from 2025-11-21 00:00 to 2025-11-21 09:05 UTC\n\
                        note: older  attempts are not counted\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn groups_beyond_what_a_screen_holds_are_counted() {
        let one = stats().groups.remove(0);
        let stats = GetStatsResponse { groups: vec![one; SHOWN + 7], ..stats() };
        assert!(shown(&GetStatsRequest::default(), &stats, None).contains("and 7 more with less waste"));
    }
}
