//! Prints the explanation of a prediction for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    shown::clean,
    tables,
    v1::{ExplainResponse, JobsCurve},
};

use super::predictor::render_prediction;

/// Most attempts that an explanation shows.
const SHOWN_ATTEMPTS: usize = 20;

/// A prediction, and the need of the same build at other numbers of build jobs.
pub(in crate::ask) fn render_jobs(explained: &ExplainResponse) -> String {
    let mut text = explained.prediction.as_ref().map(render_prediction).unwrap_or_default();
    match &explained.jobs {
        Some(curve) => {
            text.push('\n');
            text.push_str(&jobs(curve));
        }
        None => text.push_str("this server does not tell what other numbers of build jobs need\n"),
    }
    text
}

/// A prediction, the need at other numbers of build jobs, and the attempts behind both.
pub(in crate::ask) fn render_explanation(explained: &ExplainResponse) -> String {
    let mut text = explained.prediction.as_ref().map(render_prediction).unwrap_or_default();
    text.push_str("disk           no size is given: builds are not measured for it\n");
    if let Some(curve) = &explained.jobs {
        text.push('\n');
        text.push_str(&jobs(curve));
    }
    if explained.attempts.is_empty() {
        text.push_str("\nno attempt was used\n");
        return text;
    }
    let table = tables::used_attempts(&explained.attempts, SHOWN_ATTEMPTS);
    let _written = write!(text, "\n{}", table.lines());
    let rest = explained.attempts.len().saturating_sub(table.rows.len());
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more, lighter ones (all with -o json)");
    }
    text.push_str(
        "Weight: the share of the memory sizes that an attempt decides. Counts as: its need at the build jobs and the input asked for.\n",
    );
    text
}

/// A row for each number of build jobs, then the conclusions.
fn jobs(curve: &JobsCurve) -> String {
    let table = tables::jobs_curve(curve);
    // each clause gets a line of its own, because one long line is hard to read
    let clauses = curve.reason.split("; ").filter(|clause| !clause.is_empty());
    table.lines() + &clauses.map(|clause| clean(clause) + "\n").collect::<String>()
}
