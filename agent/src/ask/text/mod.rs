//! Answers for people: short lines, each number with its reason.

mod attempt;
mod explain;
mod jobs;
mod predictor;
mod stats;

pub(super) use attempt::{render_attempt, render_attempts};
pub(super) use explain::{render_explanation, render_jobs};
pub(super) use predictor::{render_prediction, render_verdict};
pub(super) use stats::render_stats;

/// Text of a server or a log, for one line of a terminal: control characters could move the cursor or hide lines.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
