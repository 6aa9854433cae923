//! Prints predictions, explanations and verdicts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::is_retry,
    reasons::{self, SizeKind},
    shown::clean,
    v1::{Prediction, Verdict},
};

use super::groups;
use crate::ask::outlook;

/// A line for each predicted number with its reason, then the rest of the explanation.
pub(in crate::ask) fn render_prediction(prediction: &Prediction) -> String {
    format!("{}{}{}", sizes(prediction), other_reasons(prediction), remarks(prediction))
}

/// The prediction after a request for an explanation: the explanation comes first.
pub(super) fn render_explained(prediction: &Prediction) -> String {
    format!("{}{}{}", summary_sentence(prediction), sizes(prediction), remarks(prediction))
}

fn summary_sentence(prediction: &Prediction) -> String {
    let reason = clean(&prediction.reason);
    if reason.is_empty() { String::new() } else { format!("{reason}\n") }
}

/// The part of the explanation that the lines about sizes do not show.
fn other_reasons(prediction: &Prediction) -> String {
    let is_named = |clause: &&str| SizeKind::ALL.iter().any(|kind| clause.starts_with(kind.as_str()));
    let reason = clean(&prediction.reason);
    let clauses: Vec<&str> = reason.split("; ").filter(|clause| !is_named(clause)).collect();
    if clauses.concat().is_empty() { String::new() } else { format!("{}\n", clauses.join("; ")) }
}

/// The prediction's remarks, one line each.
fn remarks(prediction: &Prediction) -> String {
    let mut text = groups::render(prediction.need_groups.as_ref());
    if let Some(jobs) = reasons::more_jobs_than_cores_note(prediction) {
        let _written = writeln!(text, "{jobs}");
    }
    if prediction.shadow {
        text.push_str("shadow mode: these sizes are not put into force; the build keeps what it has\n");
    }
    text
}

/// A line for each predicted number with its reason.
fn sizes(prediction: &Prediction) -> String {
    let mut text = String::new();
    let reasons::ExplainedPrediction { sizes, based_on } = reasons::explained(prediction);
    for size in sizes {
        let (name, value) = (size.kind.as_str(), size.kind.shown(size.value));
        let _written = writeln!(text, "{}", format!("{name:<15}{value:<12} {}", clean(&size.why)).trim_end());
    }
    if !prediction.pool_reason.is_empty() {
        let name = if prediction.pool.is_empty() { "none" } else { &prediction.pool };
        let clamped = if prediction.clamped { "lowered to what it takes: " } else { "" };
        let row = format!("{:<15}{:<12} {clamped}{}", "pool", clean(name), clean(&prediction.pool_reason));
        let _written = writeln!(text, "{row}");
    }
    let from = if based_on.is_empty() { attempts_words(prediction.attempts) } else { based_on };
    let _written = writeln!(text, "{:<15}{from}", "based on");
    let _written = writeln!(text, "{:<15}{}", "confidence", clean(&reasons::confidence(prediction)));
    text
}

/// A verdict: the answer, the log line that identifies the failure, and what to do and why. Then the evidence
/// (`+` supports the verdict, `-` speaks against it), what a retry would mean, and the sizes for it.
pub(in crate::ask) fn render_verdict(verdict: &Verdict) -> String {
    let mut text = String::new();
    for line in outlook::answer_lines(verdict) {
        let _written = writeln!(text, "{line}");
    }
    for line in &verdict.evidence {
        let mark = if line.supports { '+' } else { '-' };
        let _written = writeln!(text, "  {mark} {:<9} {}", clean(&line.source), clean(&line.text));
    }
    for line in outlook::fact_lines(verdict) {
        let _written = writeln!(text, "{line}");
    }
    if let Some(next) = &verdict.next {
        let head = if is_retry(verdict.action()) { "next attempt" } else { "to start it by hand" };
        let _written = write!(text, "{head}:\n{}", render_prediction(next));
    }
    text
}

pub(super) fn attempts_words(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reasons_are_the_shared_sentences() {
        for (kind, quantity) in reasons::examples() {
            let sentence = reasons::sentence(kind, &quantity);
            let row = format!("{:<15}{:<12} {sentence}", kind.as_str(), kind.shown(quantity.value));
            let text = render_prediction(&reasons::prediction_of(kind, &quantity));
            assert!(text.starts_with(&format!("{}\n", row.trim_end())), "{row:?} in {text}");
        }
    }
}
