//! What was predicted for an attempt, against what came.

use plimsoll_proto::v1::{Outcome, Predicted, Summary};

use crate::ask::{
    look::{Look, Paint},
    numbers,
};

/// A line for each number; none if nothing was predicted.
pub(super) fn lines(summary: &Summary, look: Look) -> Vec<String> {
    let Some(predicted) = &summary.predicted else { return Vec::new() };
    let running = summary.outcome() == Outcome::Running;
    [memory(predicted, summary, look), time(predicted, summary, running, look), cpu(predicted, summary)]
        .into_iter()
        .flatten()
        .collect()
}

fn verdict(held: bool, look: Look) -> String {
    if held { look.paint(Paint::Good, "held") } else { look.paint(Paint::Bad, "too small") }
}

fn memory(predicted: &Predicted, summary: &Summary, look: Look) -> Option<String> {
    let (limit, need) = (predicted.memory_limit_bytes, summary.need_peak_bytes);
    if limit == 0 || need == 0 {
        return None;
    }
    let more = if summary.censored { "more than " } else { "" };
    // one that memory ended at the limit proves that it needs more
    let held = need <= limit && !(summary.censored && need.saturating_mul(20) >= limit.saturating_mul(19));
    let said = format!(
        "limit {}: {}, it needed {more}{} ({} of it)",
        numbers::bytes(limit),
        verdict(held, look),
        numbers::bytes(need),
        share(need, limit)
    );
    let request = predicted.memory_request_bytes;
    Some(match request {
        0 => said,
        request => format!("{said}; request {}: {} of it", numbers::bytes(request), share(need, request)),
    })
}

fn time(predicted: &Predicted, summary: &Summary, running: bool, look: Look) -> Option<String> {
    let (most, took) = (predicted.wall_p95_ms, summary.wall_ms);
    // an attempt that failed may have ended early, and one that runs is not at its end
    let counts = summary.outcome() == Outcome::Succeeded || running;
    (most > 0 && counts).then(|| {
        let (most_text, took_text) = (numbers::millis(most), numbers::millis(took));
        let verb = if running { "so far" } else { "it took" };
        format!("time for 95 % {most_text}: {}, {verb} {took_text}", verdict(took <= most, look))
    })
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn cpu(predicted: &Predicted, summary: &Summary) -> Option<String> {
    let cores = predicted.cpu_request_cores;
    (cores > 0.0 && summary.wall_ms > 0).then(|| {
        let used = summary.cpu_usec as f64 / 1000.0 / summary.wall_ms as f64;
        format!("cpu request {cores:.2} cores: it used {used:.2} on average")
    })
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn share(part: u64, whole: u64) -> String {
    numbers::share(part as f64, whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_held_against_what_came() {
        let predicted = Some(Predicted {
            memory_request_bytes: 1 << 30,
            memory_limit_bytes: 2 << 30,
            cpu_request_cores: 2.0,
            wall_p95_ms: 60_000,
        });
        let good = Summary {
            predicted,
            need_peak_bytes: 3 << 29,
            wall_ms: 50_000,
            cpu_usec: 75_000_000,
            outcome: Outcome::Succeeded.into(),
            ..Summary::default()
        };
        let expected = [
            "limit 2.00 GiB: held, it needed 1.50 GiB (75 % of it); request 1.00 GiB: 150 % of it",
            "time for 95 % 1 min 0 s: held, it took 50.0 s",
            "cpu request 2.00 cores: it used 1.50 on average",
        ];
        assert_eq!(lines(&good, Look::default()), expected);
        let killed = Summary {
            need_peak_bytes: 2 << 30,
            censored: true,
            outcome: Outcome::Failed.into(),
            ..good.clone()
        };
        let said = lines(&killed, Look::default());
        assert!(said[0].starts_with("limit 2.00 GiB: too small, it needed more than 2.00 GiB"), "{said:?}");
        assert_eq!(said.len(), 2, "what failed says nothing of the time: {said:?}");
        assert!(lines(&Summary { predicted: None, ..good }, Look::default()).is_empty());
    }
}
