//! Reports a server whose clock is wrong: in the log, the metric `clock_ahead`, and as a note of `/readyz`.
//!
//! The clock decides until when tokens are valid, and in which time step an attempt counts.

use super::metrics::{KindLabel, Metrics};

/// Difference that counts as wrong, milliseconds. Machines with NTP differ by less than a second; others may drift by minutes.
pub(crate) const WRONG_BY_MS: i64 = 5 * 60 * 1000;
/// [`WRONG_BY_MS`] in seconds, as in the metric.
const WRONG_BY_S: u64 = WRONG_BY_MS.unsigned_abs() / 1000;
/// With which clocks the server's is compared.
pub(crate) const DATABASE: &str = "database";
/// See [`DATABASE`].
pub(crate) const AGENTS: &str = "agents";

/// Notes how far the server's clock is ahead of others, milliseconds; below 0 if it is behind.
pub(crate) fn note(metrics: &Metrics, others: &'static str, ahead_ms: i64) {
    let gauge = metrics.clock_ahead.get_or_create_owned(&KindLabel::of(others));
    let ahead_s = ahead_ms / 1000;
    let was_wrong = gauge.set(ahead_s).unsigned_abs() >= WRONG_BY_S;
    match (was_wrong, ahead_s.unsigned_abs() >= WRONG_BY_S) {
        (false, true) => tracing::error!(
            others,
            ahead_seconds = ahead_s,
            "the clock of this server is wrong, or those of the others are: set the time of the machine (NTP)"
        ),
        (true, false) => tracing::info!(others, "the clock of this server agrees with the others again"),
        _ => {}
    }
}

/// A line for people about each wrong clock; none if the clock seems right.
pub(crate) fn notes(metrics: &Metrics) -> impl Iterator<Item = String> {
    let note = move |others: &'static str| {
        let ahead_s = metrics.clock_ahead.get_or_create_owned(&KindLabel::of(others)).get();
        let side = if ahead_s > 0 { "ahead of" } else { "behind" };
        let is_wrong = ahead_s.unsigned_abs() >= WRONG_BY_S;
        is_wrong
            .then(|| format!("the clock of this server is {} s {side} that of the {others}", ahead_s.abs()))
    };
    [DATABASE, AGENTS].into_iter().filter_map(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_is_noted_until_corrected() {
        let metrics = Metrics::new();
        for (ahead_ms, expected) in [
            (0, None),
            (-299_999, None),
            (3_600_500, Some("the clock of this server is 3600 s ahead of that of the database")),
            (-300_000, Some("the clock of this server is 300 s behind that of the database")),
            (1500, None),
        ] {
            note(&metrics, DATABASE, ahead_ms);
            assert_eq!(notes(&metrics).next().as_deref(), expected, "{ahead_ms}");
        }
        note(&metrics, AGENTS, 3_600_000);
        assert!(notes(&metrics).next().unwrap().ends_with("3600 s ahead of that of the agents"));
    }
}
