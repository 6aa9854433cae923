//! Prints the explanation of a prediction for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures,
    measured::IncompleteNeed,
    reasons,
    shown::clean,
    v1::{ExplainResponse, UsedAttempt},
};

use super::{
    jobs,
    predictor::{render_explained, render_prediction},
};

/// Most attempts that an explanation shows.
const SHOWN_ATTEMPTS: usize = 20;
/// Heading of the column that shows what an attempt and the key have in common.
const SCOPE_HEADING: &str = "which is of";

/// A prediction, and the need of the same build at other numbers of build jobs.
pub(in crate::ask) fn render_jobs(explained: &ExplainResponse) -> String {
    let mut text = explained.prediction.as_ref().map(render_prediction).unwrap_or_default();
    match &explained.jobs {
        Some(curve) => {
            text.push('\n');
            text.push_str(&jobs::render(curve));
        }
        None => text.push_str("this server does not tell what other numbers of build jobs need\n"),
    }
    text
}

/// A prediction, the need at other numbers of build jobs, and the attempts behind both.
pub(in crate::ask) fn render_explanation(explained: &ExplainResponse) -> String {
    let mut text = explained.prediction.as_ref().map(render_explained).unwrap_or_default();
    text.push_str("disk           no size is given: builds are not measured for it\n");
    if let Some(curve) = &explained.jobs {
        text.push('\n');
        text.push_str(&jobs::render(curve));
    }
    if explained.attempts.is_empty() {
        text.push_str("\nno attempt was used\n");
        return text;
    }
    let (heaviest, lighter) = explained.attempts.split_at(explained.attempts.len().min(SHOWN_ATTEMPTS));
    let shown = || heaviest.iter().chain(lighter.iter().filter(|used| is_left_out(used)));
    let scope =
        shown().map(|used| reasons::rung_scope(used.rung()).len()).fold(SCOPE_HEADING.len(), usize::max);
    let _written = writeln!(
        text,
        "\n{:>6}  {:<10} {:<10} {:>5} {:>12}  {SCOPE_HEADING:<scope$}  attempt",
        "weight", "counts as", "measured", "jobs", "time"
    );
    for used in shown() {
        text.push_str(&row(used, scope));
    }
    let rest = lighter.iter().filter(|used| !is_left_out(used)).count();
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more, lighter ones (all with -o json)");
    }
    text.push_str(
        "Weight: the share of the memory sizes that an attempt decides. Counts as: its need at the build jobs and the input asked for.\n",
    );
    if explained.attempts.iter().any(|used| used.censored) {
        text.push_str("> is an attempt that memory stopped: it needed more than that.\n");
    }
    text
}

/// Whether the prediction left the attempt out, because it needed far less than all others.
fn is_left_out(used: &UsedAttempt) -> bool {
    used.weight <= 0.0
}

/// The row of an attempt. `scope` is the width of the column that shows what the attempt and the key have in
/// common.
fn row(used: &UsedAttempt, scope: usize) -> String {
    let more = if used.censored { ">" } else { "" };
    let size = |bytes: u64| format!("{more}{}", figures::bytes(bytes));
    let jobs = used.build_jobs.map_or_else(|| "-".to_owned(), |jobs| format!("-j{jobs}"));
    let percent = used.weight * 100.0;
    let mut note =
        IncompleteNeed::of(used.incomplete()).map_or_else(String::new, |need| format!(", {}", need.note()));
    if is_left_out(used) {
        note.push_str(", left out");
    }
    let weight = if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") };
    format!(
        "{weight:>6}  {:<10} {:<10} {jobs:>5} {:>12}  {:<scope$}  {}{note}\n",
        size(used.need_bytes),
        size(used.measured_bytes),
        figures::millis(used.wall_ms),
        reasons::rung_scope(used.rung()),
        clean(&used.attempt)
    )
}
