//! A report for a terminal or a mail.

use std::fmt::Write as _;

use plimsoll_proto::{times, wrap::wrapped};

use super::{ReportData, TimeRange, figures, next};
use crate::ask::{
    filter_words, numbers,
    terminal_style::{Paint, TerminalStyle},
    text::{
        notes, over_time, regressions, section,
        table::{NameAt, render_facts},
    },
};

/// Most columns of a line of running text; fewer if the terminal is narrower.
const LINE_CELLS: usize = 100;

/// The whole report.
pub(super) fn render(digest: &ReportData, look: TerminalStyle) -> String {
    let TimeRange { from_unix_ms, to_unix_ms } = digest.range;
    let (from, to) = (times::date_time(from_unix_ms), times::date_time(to_unix_ms));
    let long = numbers::length_words(digest.range.length_ms());
    let mut text = look.paint(Paint::Head, &format!("Builds from {from} to {to} UTC"));
    let _written =
        write!(text, "\n{}; before: the {long} before that\n", filter_words::filter_words(&digest.filter));
    if digest.now.attempts > 0 || digest.before.attempts > 0 {
        for (name, table) in
            [("figures", figures::figures(digest)), ("failures by cause", figures::cause_figures(digest))]
        {
            text.push_str(&section(name, &render_facts(&table, NameAt::Start, usize::MAX, look), look));
        }
    }
    text.push_str(&over_time(&digest.stats.steps, digest.range.step_ms(), look));
    text.push_str(&section(
        "packages that waste most",
        &render_facts(&digest.wasters_table(), NameAt::End, usize::MAX, look),
        look,
    ));
    text.push_str(&regressions::finding_sections(&digest.stats, look));
    let predictions: String = digest.about_predictions().into_iter().map(|line| line + "\n").collect();
    text.push_str(&section("predictions", &predictions, look));
    text.push_str(&section("what to do next", &advice_sentences(digest, look), look));
    let notes = notes(&digest.stats, look);
    if notes.is_empty() { text } else { text + "\n" + &notes }
}

fn advice_sentences(digest: &ReportData, look: TerminalStyle) -> String {
    let width = look.columns.unwrap_or(LINE_CELLS).clamp(20, LINE_CELLS);
    next::next(digest).iter().map(|sentence| wrapped(&format!("- {sentence}\n"), width)).collect()
}
