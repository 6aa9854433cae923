//! Numbers that follow from sums over attempts, and their words: one function for each, for the terminal, the page and the report.

use crate::{
    figures::{self, NOT_KNOWN, amount, counted, counted_as, float},
    v1::{Calibration, ChangeKind, Regression, StatsTotals},
};

/// Share of the memory asked for that was put to use; `None` if nothing was asked for, or nothing of it was measured.
pub fn memory_used(totals: &StatsTotals) -> Option<f64> {
    ratio(totals.memory_used_of_asked_gib_hours, totals.memory_asked_gib_hours)
}

/// Share of the memory asked for that was wasted: all that was not put to use.
pub fn memory_wasted(totals: &StatsTotals) -> Option<f64> {
    ratio(totals.memory_wasted_gib_hours, totals.memory_asked_gib_hours)
}

/// Share of the CPU asked for that was put to use.
pub fn cpu_used(totals: &StatsTotals) -> Option<f64> {
    ratio(totals.cpu_used_of_asked_core_hours, totals.cpu_asked_core_hours)
}

/// Mean and maximum of the highest need over what was asked for; `None` if no attempt tells both.
pub fn need_over_ask(totals: &StatsTotals) -> Option<(f64, f64)> {
    (totals.need_over_ask_max > 0.0).then_some((totals.need_over_ask_mean, totals.need_over_ask_max))
}

/// The same in words: `31 % on average, 120 % at most`; not known without.
pub fn need_over_ask_words(totals: &StatsTotals) -> String {
    need_over_ask(totals).map_or_else(
        || NOT_KNOWN.to_owned(),
        |(mean, most)| format!("{} on average, {} at most", figures::percent(mean), figures::percent(most)),
    )
}

/// Highest need of all, bytes.
pub fn highest_need(totals: &StatsTotals) -> Option<u64> {
    Some(totals.need_peak_max_bytes).filter(|need| *need > 0)
}

/// Need over time of all attempts, GiB x h; `None` if none of them measured it.
pub fn memory_over_time(totals: &StatsTotals) -> Option<f64> {
    (totals.memory_not_measured < totals.attempts).then_some(totals.memory_used_gib_hours)
}

/// CPU time of all attempts, core x h; `None` if none of them measured it.
pub fn cpu_time(totals: &StatsTotals) -> Option<f64> {
    (totals.cpu_not_measured < totals.attempts).then_some(totals.cpu_core_hours)
}

/// CPU time in words: `12 core·h`, `not known`.
pub fn cpu_time_words(totals: &StatsTotals) -> String {
    cpu_time(totals).map_or_else(|| NOT_KNOWN.to_owned(), figures::core_hours)
}

/// Mean wall time of an attempt, milliseconds.
pub fn mean_wall_ms(totals: &StatsTotals) -> Option<f64> {
    ratio(totals.wall_hours * 3_600_000.0, float(totals.attempts))
}

/// What is left out of the sums, in words; `None` if nothing is.
pub fn left_out(totals: &StatsTotals) -> Option<String> {
    let missing = [("memory", totals.memory_not_measured), ("CPU time", totals.cpu_not_measured)];
    let missing: Vec<String> = missing
        .into_iter()
        .filter(|(_, attempts)| *attempts > 0)
        .map(|(what, attempts)| format!("{} without measured {what}", counted(attempts, "attempt")))
        .collect();
    (!missing.is_empty()).then(|| format!("left out of the sums: {}", missing.join(", ")))
}

/// By which factor predicted limits and needs differ in the mean, at least 1; `None` if nothing was predicted.
pub fn limit_factor(held: &Calibration) -> Option<f64> {
    (held.attempts > 0 && held.error_log2_mean > 0.0).then(|| held.error_log2_mean.exp2())
}

/// From which attempts a change of a need is known: `8 attempts before, 3 since`; of a drift, which has no first attempt, how many.
pub fn moved_over(moved: &Regression) -> String {
    let (before, since) = (u64::from(moved.attempts_before), u64::from(moved.attempts_since));
    match moved.kind() {
        ChangeKind::Drift => format!("over {}", counted(before + since, "attempt")),
        _ => format!("{} before, {} since", counted(before, "attempt"), figures::count(since)),
    }
}

/// How many attempts failed for memory, in words.
pub fn memory_failures(failed: u64) -> String {
    counted_as(failed, "failure for memory", "failures for memory")
}

/// `12.3 GiB·h (45 %)`: a part of what was asked for, with its share.
pub fn with_share(part: f64, share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{} ({})", amount(part), figures::percent(share)),
        None => amount(part),
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_not_known_and_not_zero() {
        let imported = StatsTotals {
            attempts: 3,
            memory_not_measured: 3,
            cpu_not_measured: 3,
            ..StatsTotals::default()
        };
        assert_eq!(
            (memory_used(&imported), memory_wasted(&imported), cpu_used(&imported)),
            (None, None, None)
        );
        assert_eq!(
            (memory_over_time(&imported), cpu_time(&imported), highest_need(&imported)),
            (None, None, None)
        );
        assert_eq!([cpu_time_words(&imported), need_over_ask_words(&imported)], ["not known", "not known"]);
        let said =
            "left out of the sums: 3 attempts without measured memory, 3 attempts without measured CPU time";
        assert_eq!(left_out(&imported).as_deref(), Some(said));
        assert_eq!(left_out(&StatsTotals::default()), None);
    }

    #[test]
    fn used_and_wasted_are_all_that_was_asked_for() {
        let totals = StatsTotals {
            memory_asked_gib_hours: 4.0,
            memory_used_of_asked_gib_hours: 1.0,
            memory_wasted_gib_hours: 3.0,
            ..StatsTotals::default()
        };
        assert_eq!((memory_used(&totals), memory_wasted(&totals)), (Some(0.25), Some(0.75)));
        assert_eq!(with_share(1.0, memory_used(&totals)), "1 (25 %)");
    }

    #[test]
    fn a_drift_has_no_attempts_before_it() {
        let moved = |kind: ChangeKind, attempts_before, attempts_since| {
            moved_over(&Regression {
                kind: kind.into(),
                attempts_before,
                attempts_since,
                ..Regression::default()
            })
        };
        assert_eq!(moved(ChangeKind::Drift, 0, 12), "over 12 attempts");
        assert_eq!(moved(ChangeKind::Step, 8, 3), "8 attempts before, 3 since");
    }
}
