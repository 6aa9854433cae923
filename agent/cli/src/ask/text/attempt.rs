//! Prints attempts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::outcome_words,
    facts::{self, Line},
    measured,
    shown::clean,
    times,
    v1::{GetAttemptResponse, Outcome, Summary, Verdict},
};

use super::{key::key_words, predictor::render_verdict, series, titled_line};
use crate::{
    ask::terminal_style::{Paint, TerminalStyle},
    job_summary::phase_rows,
};

/// One attempt: its key, its use over time, its prediction, and its verdict.
pub(in crate::ask) fn render_attempt(shown: &GetAttemptResponse, look: TerminalStyle) -> String {
    let Some(summary) = &shown.summary else {
        return "nothing is known of this attempt\n".to_owned();
    };
    let mut text = attempt_lines(summary, look);
    if !shown.retried_by.is_empty() {
        let ended = outcome_words(shown.retry_outcome());
        text.push_str(&titled_line("retried by", &format!("{}, which {ended}", clean(&shown.retried_by))));
    }
    text.push_str(&series::series_lines(&shown.series, summary, look));
    text.push_str(&named_block("phases", &phase_rows(&summary.phases)));
    if let Some(verdict) = &shown.verdict {
        let judged = render_verdict(verdict);
        text.push_str(&named_block("verdict", &judged.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    text.push_str(&named_block(
        "before it",
        &shown.earlier_verdicts.iter().map(earlier_verdict).collect::<Vec<_>>(),
    ));
    text
}

/// One line about a verdict that was replaced by a later one.
fn earlier_verdict(verdict: &Verdict) -> String {
    let given = match verdict.given_unix_ms {
        0 => String::new(),
        given => format!("{} UTC, ", times::date_time(given)),
    };
    let answer = render_verdict(verdict);
    format!("{given}{}", answer.lines().next().unwrap_or_default())
}

/// Several lines below one title.
fn named_block(name: &str, lines: &[String]) -> String {
    let named = |(nth, line): (usize, &String)| titled_line(if nth == 0 { name } else { "" }, line);
    lines.iter().enumerate().map(named).collect()
}

fn attempt_lines(summary: &Summary, look: TerminalStyle) -> String {
    let mut text = titled_line("attempt", &id_words(summary));
    text.push_str(&titled_line("what", &summary.key.as_ref().map(key_words).unwrap_or_default()));
    for (title, sentence) in facts::sentences(summary, &Line::ALL) {
        let paint = if title == Line::Result.as_str() { end_paint(summary) } else { Paint::Plain };
        text.push_str(&titled_line(title, &look.paint(paint, &sentence)));
    }
    text
}

/// The attempt's id, with its number if the job was attempted several times.
fn id_words(summary: &Summary) -> String {
    let mut text = clean(&summary.attempt);
    if summary.number > 1 {
        let _written = write!(text, ", try {}", summary.number);
    }
    if !summary.retries.is_empty() {
        let _written = write!(text, ", after {}", clean(&summary.retries));
    }
    text
}

/// The colour for the result of an attempt.
pub(super) fn end_paint(summary: &Summary) -> Paint {
    match summary.outcome() {
        Outcome::Succeeded => Paint::Good,
        Outcome::Failed if measured::is_canceled(summary) => Paint::Warn,
        Outcome::Failed => Paint::Bad,
        Outcome::Lost | Outcome::Ended => Paint::Warn,
        Outcome::Running | Outcome::Unspecified => Paint::Plain,
    }
}
