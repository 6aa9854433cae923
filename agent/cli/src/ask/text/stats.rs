//! Prints statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    WireEnum as _,
    facts::{self, Line},
    figures::{self, count},
    shown::clean,
    sums,
    tables::{self, FactTable},
    times,
    v1::{Filter, GetStatsRequest, GetStatsResponse, GroupBy, StatsTotals, Step},
};

use super::{section, titled_line};
use crate::ask::{
    curve::{draw_curve, draw_fractions},
    filter_words,
    terminal_style::{Paint, TerminalStyle},
};

/// Most groups that are shown.
const SHOWN_GROUPS: usize = 30;

/// Most rows of each kind of finding.
const SHOWN_FINDINGS: usize = 10;

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
    head + &totals_lines(stats, look)
        + &over_time(&stats.steps, asked.step_ms, look)
        + &groups_table(stats, &by, look)
        + &findings(stats, look)
        + &notes(stats, look)
}

/// The totals, a sentence in each line.
fn totals_lines(stats: &GetStatsResponse, look: TerminalStyle) -> String {
    let has_failed = stats.totals.as_ref().is_some_and(|totals| totals.failed > 0);
    let line = |(title, sentence): (&str, String)| {
        let is_bad = has_failed && title == Line::Failures.as_str();
        titled_line(title, &look.paint(if is_bad { Paint::Bad } else { Paint::Plain }, &sentence))
    };
    facts::sentences(stats, &Line::ALL).into_iter().map(line).collect()
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
    // if no attempt reported its request, waste is unknown, and the use is shown instead
    let wasted = stats.totals.as_ref().is_some_and(|totals| sums::memory_asked(totals).is_some());
    let mut headings = vec![if wasted { "wasted GiB·h" } else { "used GiB·h" }];
    headings.extend(["attempts", "failed", "put to use", "oom", "highest need", "wasted core·h", "need/ask"]);
    headings.extend((!stats.currency.is_empty()).then_some("wasted money"));
    let table = look.table(&tables::groups("name", &stats.groups, &headings), SHOWN_GROUPS);
    let title = format!("by {by}, the largest {} first", if wasted { "waste" } else { "use" });
    let mut text = section(&title, &table, look);
    let rest = stats.groups.len().saturating_sub(SHOWN_GROUPS);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more with less (all with -o json)");
    }
    text
}

/// A section for each kind of finding.
fn findings(stats: &GetStatsResponse, look: TerminalStyle) -> String {
    let section_of = |(heading, why, facts): (&str, &str, FactTable)| {
        let heading = if why.is_empty() { heading.to_owned() } else { format!("{heading} ({why})") };
        let more = match facts.rows.len().saturating_sub(SHOWN_FINDINGS) {
            0 => String::new(),
            more => format!("and {more} more (all with -o json)\n"),
        };
        section(&heading, &(look.table(&facts, SHOWN_FINDINGS) + &more), look)
    };
    tables::findings(stats).map(section_of).concat()
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
        let line = draw_curve(&values, 0, cells, true);
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
        let line = draw_fractions(&wasted, 0.0, cells);
        text.push_str(&titled_line("wasted", &format!("{line}  at most {}", figures::gib_hours(most))));
    }
    text
}
