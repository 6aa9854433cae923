//! Prints attempts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::outcome_words,
    facts::{self, Line},
    shown::clean,
    tables,
    v1::{GetAttemptResponse, Summary},
};

use super::{key::key_words, phase_lines, predictor::render_verdict, series, titled_line};
use crate::ask::terminal_style::{Paint, TerminalStyle};

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
    text.push_str(&named_block("phases", &phase_lines(summary, look.columns)));
    text.push_str(&named_block("verdict", &shown.verdict.as_ref().map(render_verdict).unwrap_or_default()));
    text + &named_block("before it", &tables::earlier_verdicts(&shown.earlier_verdicts).lines())
}

/// Several lines below one title.
fn named_block(name: &str, lines: &str) -> String {
    let named = |(nth, line)| titled_line(if nth == 0 { name } else { "" }, line);
    lines.lines().enumerate().map(named).collect()
}

fn attempt_lines(summary: &Summary, look: TerminalStyle) -> String {
    let mut text = titled_line("attempt", &id_words(summary));
    text.push_str(&titled_line("what", &summary.key.as_ref().map(key_words).unwrap_or_default()));
    for (title, sentence) in facts::sentences(summary, &Line::ALL) {
        let sentence = match Line::ALL.into_iter().find(|line| line.as_str() == title) {
            Some(Line::Result) => look.paint(tables::result(summary, "").paint(), &sentence),
            Some(Line::Predicted) => sentence
                .replace("too small", &look.paint(Paint::Bad, "too small"))
                .replace(" held", &format!(" {}", look.paint(Paint::Good, "held"))),
            _ => sentence,
        };
        text.push_str(&titled_line(title, &sentence));
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
