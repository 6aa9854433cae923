//! Prints findings for people: packages with a changed or varying need, and failures that retries fix.

use plimsoll_proto::{
    tables::{self, FactTable},
    v1::GetStatsResponse,
};

use super::{section, table::render_facts};
use crate::ask::terminal_style::TerminalStyle;

/// Most rows of each section.
const SHOWN_ROWS: usize = 10;

/// The findings as text: a section for each kind of finding.
pub(super) fn finding_sections(stats: &GetStatsResponse, look: TerminalStyle) -> String {
    let table = |head: &str, facts: &FactTable, rest: &str| {
        let more = match facts.rows.len().saturating_sub(SHOWN_ROWS) {
            0 => String::new(),
            more => format!("and {more} more {rest} (all with -o json)\n"),
        };
        section(head, &(render_facts(facts, SHOWN_ROWS, look) + &more), look)
    };
    [
        table(
            "needs that have moved (the most expensive first)",
            &tables::regressions(&stats.regressions),
            "that cost less",
        ),
        table(
            "builds that hide groups with different needs (the most expensive first)",
            &tables::mixed_needs(&stats.mixed),
            "that cost less",
        ),
        table(
            "packages whose need varies most",
            &tables::variable_packages(&stats.variable),
            "that vary less",
        ),
        table(
            "failures by the line that they are known by (the most frequent first)",
            &tables::failing_lines(&stats.failures),
            "with fewer failures",
        ),
        table(
            "failures that were retried as they were (over all attempts)",
            &tables::flaky_failures(&stats.flaky),
            "with fewer retries",
        ),
        table("causes that people corrected", &tables::wrong_rules(&stats.wrong), "rules"),
        table("rules that do not count here", &tables::silenced_rules(&stats.silenced), "rules"),
    ]
    .concat()
}
