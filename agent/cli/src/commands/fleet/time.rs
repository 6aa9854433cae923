//! Times on the command line: a length of time before now, or a date.

use std::time::{Duration, SystemTime};

/// A time as the user wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeArg {
    /// A length of time before now.
    Before(Duration),
    /// A date, as milliseconds since 1970.
    At(u64),
}

impl TimeArg {
    /// The time in milliseconds since 1970; earlier times become 0. A relative time is rounded to a whole
    /// second, so that a user can write it as a date.
    pub(super) fn unix_ms(self, now_unix_ms: u64) -> u64 {
        match self {
            Self::Before(long) => now_unix_ms.saturating_sub(to_millis(long)) / 1000 * 1000,
            Self::At(unix_ms) => unix_ms,
        }
    }
}

/// Parses `7d`, `2026-11-14`, `2026-11-14 10:00` or `2026-11-14T10:00:00Z`.
pub(super) fn parse_moment(text: &str) -> Result<TimeArg, String> {
    if let Ok(long) = humantime::parse_duration(text) {
        return Ok(TimeArg::Before(long));
    }
    let zeros = match text.len() {
        10 => " 00:00:00",
        16 => ":00",
        _ => "",
    };
    let time = humantime::parse_rfc3339_weak(&format!("{text}{zeros}")).ok();
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map(|since| TimeArg::At(to_millis(since))).ok_or_else(|| {
        "expected a length of time before now, as 7d or 12h, or a time in UTC, as 2026-11-14 or \"2026-11-14 10:00\""
            .to_owned()
    })
}

pub(in crate::commands) fn to_millis(long: Duration) -> u64 {
    u64::try_from(long.as_millis()).unwrap_or(u64::MAX)
}

/// The current time, milliseconds since 1970.
pub(super) fn now_unix_ms() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "`--since` counts back from the moment the command is typed"
    )]
    let now = SystemTime::now();
    to_millis(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_calendar_dates() {
        let day = Duration::from_hours(24);
        assert_eq!(parse_moment("7d"), Ok(TimeArg::Before(7 * day)));
        let midnight = TimeArg::At(1_763_683_200_000);
        assert_eq!(parse_moment("2025-11-21"), Ok(midnight));
        for same in ["2025-11-21 00:00", "2025-11-21T00:00:00Z", "2025-11-21 00:00:00"] {
            assert_eq!(parse_moment(same), Ok(midnight), "{same}");
        }
        for wrong in ["", "7", "yesterday", "2025-13-01", "1969-12-31", "2025-11-21 25:00", "١٢-١٢-١٢٣"]
        {
            assert!(parse_moment(wrong).unwrap_err().contains("7d"), "{wrong}");
        }
    }

    #[test]
    fn what_lies_before_1970_is_1970() {
        assert_eq!(parse_moment("9999y").unwrap().unix_ms(1000), 0);
        assert_eq!(TimeArg::Before(Duration::from_secs(2)).unix_ms(10_999), 8000);
    }
}
