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
use plimsoll_proto::{tables, v1::Summary};
pub(crate) use predictor::{cleaned_row, prediction_lines};
pub(super) use predictor::{render_prediction, render_verdict};
#[cfg(feature = "people")]
pub(super) use proposals::render_proposals;
#[cfg(feature = "people")]
pub(super) use stats::render_stats;

/// Most phases in a table; the others share one row.
const SHOWN_PHASES: usize = 8;
/// The columns of a table of phases that a text has room for.
const PHASE_COLUMNS: [&str; 5] = ["phase", "took", "highest need", "CPU time", "peak"];

/// A table of the phases, which fits beside a title in lines of this many columns.
pub(crate) fn phase_lines(summary: &Summary, columns: Option<usize>) -> String {
    // a title and the space behind it take 12
    let room = columns.map(|columns| columns.saturating_sub(12));
    let phases = tables::phases(summary, SHOWN_PHASES, "<- peak").only(&PHASE_COLUMNS);
    phases.draw(usize::MAX, room, |_, text| text.to_owned())
}

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
