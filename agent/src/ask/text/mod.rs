//! Answers for people: short lines, each number with its reason.

mod attempt;
mod attempts;
mod cells;
mod explain;
mod foretold;
mod groups;
mod jobs;
pub(super) mod moved;
mod predictor;
mod series;
mod stats;
pub(super) mod table;
mod totals;

pub(super) use attempt::{name as attempt_name, render_attempt};
pub(super) use attempts::render_attempts;
pub(super) use cells::{fit, width};
pub(super) use explain::{render_explanation, render_jobs};
pub(super) use predictor::{render_prediction, render_verdict};
pub(super) use stats::{notes, over_time, render_stats};
pub(super) use totals::{calibration, would_have_been};

pub(super) use crate::report::clean;

/// A line with a name before it.
fn titled(name: &str, value: &str) -> String {
    format!("{name:<11} {value}\n")
}
