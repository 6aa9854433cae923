//! Prints predictions and verdicts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    reasons,
    shown::clean,
    tables::part_effects,
    v1::{Prediction, Verdict},
    verdict,
};

/// A line for each row of a prediction.
pub(crate) fn prediction_lines(prediction: &Prediction) -> impl Iterator<Item = String> {
    let line = |(name, value, why): (&str, String, String)| match name {
        "" => clean(&value),
        name => format!("{name:<15}{:<12} {}", clean(&value), clean(&why)).trim_end().to_owned(),
    };
    reasons::rows(prediction).into_iter().map(line)
}

/// A prediction, and what parts of the key add to the need.
pub(in crate::ask) fn render_prediction(prediction: &Prediction) -> String {
    let rows = prediction_lines(prediction).map(|line| line + "\n").collect::<String>();
    rows + &part_effects(prediction).lines()
}

/// A row of a verdict in one line.
pub(crate) fn cleaned_row((name, value): (&str, String)) -> String {
    if name.is_empty() { clean(&value) } else { format!("{name}: {}", clean(&value)) }
}

/// A verdict: its rows, then the evidence (`+` supports the verdict, `-` speaks against it), and the sizes for another attempt.
pub(in crate::ask) fn render_verdict(verdict: &Verdict) -> String {
    let mut text: String = verdict::rows(verdict).into_iter().map(|row| cleaned_row(row) + "\n").collect();
    for line in &verdict.evidence {
        let mark = if line.supports { '+' } else { '-' };
        let _written = writeln!(text, "  {mark} {:<9} {}", clean(&line.source), clean(&line.text));
    }
    if let Some(next) = &verdict.next {
        let _written = write!(text, "{}:\n{}", verdict::next_words(verdict), render_prediction(next));
    }
    text
}
