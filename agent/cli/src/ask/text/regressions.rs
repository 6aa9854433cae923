//! Prints findings for people: packages with a changed or varying need, and failures that retries fix.

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::cause_words,
    figures, reasons,
    shown::clean,
    sums,
    tables::{self, FactTable},
    v1::{ChangeKind, FailureGroup, GetStatsResponse, MixedNeed, Regression},
};

use super::{section, table::render_facts};
use crate::ask::terminal_style::{Paint, TerminalStyle};

/// Most rows of each section.
const SHOWN_ROWS: usize = 10;

/// The findings as text: a section for each kind of finding.
pub(super) fn finding_sections(stats: &GetStatsResponse, look: TerminalStyle) -> String {
    let table = |head: &str, facts: &FactTable, rest: &str| {
        let rows = render_facts(facts, SHOWN_ROWS, look);
        section(head, &(rows + &more_line(facts.rows.len(), rest)), look)
    };
    regressions_section(&stats.regressions, look)
        + &mixed_section(&stats.mixed, look)
        + &table(
            "packages whose need varies most",
            &tables::variable_packages(&stats.variable),
            "that vary less",
        )
        + &failures_section(&stats.failures, look)
        + &table(
            "failures that were retried as they were (over all attempts)",
            &tables::flaky_failures(&stats.flaky),
            "with fewer retries",
        )
        + &table("causes that people corrected", &tables::wrong_rules(&stats.wrong), "rules")
        + &table("rules that do not count here", &tables::silenced_rules(&stats.silenced), "rules")
}

fn more_line(all: usize, what: &str) -> String {
    match all.saturating_sub(SHOWN_ROWS) {
        0 => String::new(),
        rest => format!("and {rest} more {what} (all with -o json)\n"),
    }
}

/// Two lines for each build with a changed need.
fn regressions_section(regressions: &[Regression], look: TerminalStyle) -> String {
    let mut text = String::new();
    for moved in regressions.iter().take(SHOWN_ROWS) {
        let (before, now) = (figures::bytes(moved.before_bytes), figures::bytes(moved.now_bytes));
        let paint = if moved.factor > 1.0 { Paint::Bad } else { Paint::Good };
        let _written = writeln!(
            text,
            "{}  {before} -> {now}, {} {} ({}, {} GiB·h)",
            look.paint(paint, &format!("{:>8}", figures::times(moved.factor))),
            sums::moved_since_words(moved),
            clean(&moved.attempt),
            sums::moved_over_words(moved),
            figures::signed(moved.extra_gib_hours)
        );
        let changed = match (moved.changed.as_str(), moved.kind()) {
            ("", ChangeKind::Drift) => String::new(),
            ("", _) => "; nothing in the key changed with it".to_owned(),
            (changed, _) => format!("; with it changed: {}", clean(changed)),
        };
        let _written = writeln!(text, "          {}{changed}", clean(&moved.key));
    }
    text.push_str(&more_line(regressions.len(), "that cost less"));
    section("needs that have moved (the most expensive first)", &text, look)
}

/// Two lines for each build that has groups of attempts with different needs.
fn mixed_section(builds: &[MixedNeed], look: TerminalStyle) -> String {
    let mut text = String::new();
    for build in builds.iter().take(SHOWN_ROWS) {
        let cost = look.paint(Paint::Bad, &format!("{:>8}", figures::amount(build.extra_gib_hours)));
        let _written = writeln!(text, "{cost} GiB·h above the need with one size  {}", clean(&build.key));
        let reason = build.groups.as_ref().map(|groups| clean(&groups.reason)).unwrap_or_default();
        let _written = writeln!(text, "          {reason}");
    }
    text.push_str(&more_line(builds.len(), "that cost less"));
    section("builds that hide groups with different needs (the most expensive first)", &text, look)
}

/// Two lines for each group of equal failures; the second line is the log line that identifies them.
fn failures_section(groups: &[FailureGroup], look: TerminalStyle) -> String {
    let mut text = String::new();
    for group in groups.iter().take(SHOWN_ROWS) {
        let retries = match group.retried {
            0 => "not retried".to_owned(),
            retried => format!(
                "{}, {} passed, {} asked for",
                figures::counted_as(retried, "retry", "retries"),
                figures::count(group.passed),
                figures::gib_hours(group.retries_gib_hours)
            ),
        };
        let (cause, packages) = (cause_words(group.cause()), clean(&sums::packages_words(group)));
        let line = clean(reasons::failure_line(&group.failure_line, &group.signature_line));
        let count = look.paint(Paint::Bad, &format!("{:>8}", figures::count(group.attempts)));
        let _written = writeln!(text, "{count}  {cause}: {packages}; {retries}\n          {line}");
    }
    text.push_str(&more_line(groups.len(), "with fewer failures"));
    section("failures by the line that they are known by (the most frequent first)", &text, look)
}
