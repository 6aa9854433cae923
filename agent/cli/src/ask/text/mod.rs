//! Prints answers for people: short lines, each number with its reason.

#[cfg(feature = "people")]
mod attempt;
#[cfg(feature = "people")]
mod attempts;
mod explain;
mod key;
mod predictor;
#[cfg(feature = "people")]
mod proposals;
#[cfg(feature = "people")]
mod series;
#[cfg(feature = "people")]
mod stats;

#[cfg(feature = "people")]
pub(super) use attempt::render_attempt;
#[cfg(feature = "people")]
pub(super) use attempts::render_attempts;
pub(super) use explain::{render_explanation, render_jobs};
pub(super) use key::key_words;
pub(crate) use predictor::{cleaned_row, prediction_lines};
pub(super) use predictor::{render_prediction, render_verdict};
#[cfg(feature = "people")]
pub(super) use proposals::render_proposals;
#[cfg(feature = "people")]
pub(super) use stats::render_stats;

/// The columns of a table of phases that a text has room for.
pub(crate) const PHASE_COLUMNS: [&str; 5] = ["phase", "took", "highest need", "CPU time", "peak"];

/// A section with a heading; empty if it has no content.
#[cfg(feature = "people")]
fn section(heading: &str, body: &str, look: super::TerminalStyle) -> String {
    let heading = look.paint(super::terminal_style::Paint::Head, heading);
    if body.is_empty() { String::new() } else { format!("\n{heading}\n{body}") }
}

/// A line with a title, padded to a fixed width, and a value.
#[cfg(feature = "people")]
fn titled_line(name: &str, value: &str) -> String {
    format!("{name:<11} {value}\n")
}
