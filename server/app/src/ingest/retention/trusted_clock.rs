//! A clock that limits jumps forward: old data is deleted, so a wrong clock must not make it look
//! years older at once.
//!
//! The end of the newest attempt shows that time has passed until then. When the server starts, the
//! trusted time is at most a day after that end; from then on it advances at most at twice the real
//! speed. So the trusted time catches up if the server was off for long, and an operator has time
//! to correct a wrong clock. A clock that goes back is trusted: everything is then younger, and
//! nothing is deleted too early.

use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Hours in a year. A clock that was never set is wrong by many years, but imported history usually
/// ended within the last year.
const SUSPECT_HOURS: u64 = 365 * 24;

/// The first reading of the monotonic clock in this process, and the time that was trusted then,
/// milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TrustedClock(Option<(Instant, u64)>);

impl TrustedClock {
    /// The trusted time, milliseconds since 1970. `newest_unix_ms` is called once: it returns the end of the newest stored attempt.
    pub(super) fn now(
        &mut self,
        reported_unix_ms: u64,
        moment: Instant,
        newest_unix_ms: impl FnOnce() -> Option<u64>,
    ) -> u64 {
        let first = || {
            let proven = newest_unix_ms().map_or(u64::MAX, |newest| newest.saturating_add(DAY_MS));
            if reported_unix_ms > proven {
                log_suspect((reported_unix_ms - proven) / HOUR_MS);
            }
            (moment, reported_unix_ms.min(proven))
        };
        let (began, believed) = *self.0.get_or_insert_with(first);
        let passed = whole_ms(moment.saturating_duration_since(began)).saturating_mul(2);
        reported_unix_ms.min(believed.saturating_add(passed).saturating_add(HOUR_MS))
    }
}

/// Whether a gap of this many hours suggests a wrong clock, rather than an import or a server that
/// was off.
fn is_suspect(hours: u64) -> bool {
    hours >= SUSPECT_HOURS
}

fn log_suspect(hours: u64) {
    let warning = "nothing stored ended within a day before now: samples get old slowly until the clock has proved right";
    if is_suspect(hours) {
        tracing::warn!(hours, "the clock may be wrong: {warning}");
    } else {
        tracing::info!(hours, "{warning}");
    }
}

/// The duration in whole milliseconds.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: u64 = 365 * DAY_MS;

    #[test]
    fn a_forward_clock_jump_ages_nothing() {
        let (mut clock, begin) = (TrustedClock::default(), Instant::now());
        let unasked = || panic!("what ended last is asked for once");
        assert_eq!(clock.now(YEAR_MS, begin, || None), YEAR_MS);
        let later = begin + Duration::from_hours(1);
        assert_eq!(clock.now(2 * YEAR_MS, later, unasked), YEAR_MS + 3 * HOUR_MS);
        assert_eq!(clock.now(YEAR_MS / 2, later, unasked), YEAR_MS / 2, "back is harmless: all is younger");
    }

    #[test]
    fn months_old_imports_do_not_make_clocks_suspect() {
        assert_eq!([1, 24, 90 * 24, 365 * 24].map(is_suspect), [false, false, false, true]);
    }

    #[test]
    fn a_startup_clock_ahead_is_trusted_slowly() {
        let (mut clock, begin) = (TrustedClock::default(), Instant::now());
        let newest = || Some(YEAR_MS);
        assert_eq!(clock.now(2 * YEAR_MS, begin, newest), YEAR_MS + DAY_MS + HOUR_MS);
        let later = begin + Duration::from_hours(365 * 24);
        assert_eq!(clock.now(2 * YEAR_MS, later, newest), 2 * YEAR_MS, "it proved to be right");
        assert_eq!(TrustedClock::default().now(YEAR_MS, begin, newest), YEAR_MS);
    }
}
