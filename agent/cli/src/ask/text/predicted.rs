//! Compares an attempt with its prediction.

use plimsoll_proto::{
    figures, measured,
    v1::{Outcome, Predicted, Summary},
};

use crate::ask::terminal_style::{Paint, TerminalStyle};

/// A line for each predicted number; no lines if the attempt has no prediction.
pub(super) fn predicted_lines(summary: &Summary, look: TerminalStyle) -> Vec<String> {
    let Some(predicted) = &measured::predicted(summary) else { return Vec::new() };
    let running = summary.outcome() == Outcome::Running;
    [
        memory_line(predicted, summary, look),
        time_line(predicted, summary, running, look),
        cpu_line(predicted, summary),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn held_words(held: bool, look: TerminalStyle) -> String {
    if held { look.paint(Paint::Good, "held") } else { look.paint(Paint::Bad, "too small") }
}

fn memory_line(predicted: &Predicted, summary: &Summary, look: TerminalStyle) -> Option<String> {
    let (limit, need) = (measured::predicted_limit(summary)?, measured::proven_need(summary)?);
    let held = measured::limit_sufficed(summary)
        .map_or_else(|| figures::NOT_KNOWN.to_owned(), |held| held_words(held, look));
    let shown = format!(
        "limit {}: {held}, it needed {} ({} of it)",
        figures::bytes(limit),
        measured::need_words(summary),
        figures::share_of(need, limit)
    );
    let request = predicted.memory_request_bytes;
    Some(match request {
        0 => shown,
        request => {
            format!(
                "{shown}; request {}: {} of it",
                figures::bytes(request),
                figures::share_of(need, request)
            )
        }
    })
}

fn time_line(predicted: &Predicted, summary: &Summary, running: bool, look: TerminalStyle) -> Option<String> {
    let (most, took) = (predicted.wall_p95_ms, summary.wall_ms);
    // compare only with attempts that succeeded or still run: a failed attempt may have ended early
    let counts = summary.outcome() == Outcome::Succeeded || running;
    (most > 0 && counts).then(|| {
        let (most_text, took_text) = (figures::millis(most), figures::millis(took));
        let verb = if running { "so far" } else { "it took" };
        format!("time for 95 % {most_text}: {}, {verb} {took_text}", held_words(took <= most, look))
    })
}

fn cpu_line(predicted: &Predicted, summary: &Summary) -> Option<String> {
    let asked = Some(predicted.cpu_request_cores).filter(|cores| *cores > 0.0)?;
    let used = measured::mean_cores(summary)?;
    Some(format!("cpu request {}: it used {} on average", figures::cores_named(asked), figures::cores(used)))
}
