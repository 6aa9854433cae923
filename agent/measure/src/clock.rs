//! The time of day, asked for in one place. Durations never come from here: they are taken from the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, UTC; 0 on a machine whose clock stands before that.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the time of day")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
