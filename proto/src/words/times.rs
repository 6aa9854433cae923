//! Formats points in time for people and programs, in UTC.

use std::time::{Duration, UNIX_EPOCH};

/// The last moment with a year of four digits, the end of 9999: later than any build.
pub const LAST_UNIX_MS: u64 = 253_402_300_799_999;

/// Formats a time as `2026-11-21T09:05:07Z`; a dash for a time after [`LAST_UNIX_MS`].
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    if unix_ms > LAST_UNIX_MS {
        return "-".to_owned();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(unix_ms)).to_string()
}

/// Formats a time as `2026-11-21 09:05`; a dash for a time after [`LAST_UNIX_MS`].
#[must_use]
pub fn date_time(unix_ms: u64) -> String {
    let text = rfc3339(unix_ms);
    text.get(..16).map_or_else(|| text.clone(), |minutes| minutes.replace('T', " "))
}

/// Formats the day of a time as `2026-11-21`; a dash for a time after [`LAST_UNIX_MS`].
#[must_use]
pub fn date(unix_ms: u64) -> String {
    let text = rfc3339(unix_ms);
    text.get(..10).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_no_calendar_has_are_a_dash() {
        let ms = 1_763_715_907_000;
        assert_eq!([date_time(ms), rfc3339(ms)], ["2025-11-21 09:05", "2025-11-21T09:05:07Z"]);
        assert_eq!(date_time(u64::MAX), "-");
        assert_eq!(rfc3339(LAST_UNIX_MS), "9999-12-31T23:59:59Z");
    }
}
