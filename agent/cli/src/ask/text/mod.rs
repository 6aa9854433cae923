//! Prints answers for people: short lines, each number with its reason.

#[cfg(feature = "people")]
mod attempt;
#[cfg(feature = "people")]
mod attempts;
#[cfg(feature = "people")]
mod cells;
mod explain;
mod groups;
mod key;
mod predictor;
#[cfg(feature = "people")]
mod proposals;
#[cfg(feature = "people")]
pub(super) mod regressions;
#[cfg(feature = "people")]
mod series;
#[cfg(feature = "people")]
mod stats;
#[cfg(feature = "people")]
pub(super) mod table;
#[cfg(feature = "people")]
mod totals;

#[cfg(feature = "people")]
pub(super) use attempt::render_attempt;
#[cfg(feature = "people")]
pub(super) use attempts::render_attempts;
#[cfg(feature = "people")]
pub(super) use cells::{fit_text, text_columns};
pub(super) use explain::{render_explanation, render_jobs};
pub(super) use key::key_words;
#[cfg(feature = "people")]
pub(super) use key::name as attempt_name;
pub(super) use predictor::{render_prediction, render_verdict};
#[cfg(feature = "people")]
pub(super) use proposals::render_proposals;
#[cfg(feature = "people")]
pub(super) use stats::render_stats;

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
