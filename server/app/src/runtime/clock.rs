//! The wall clock. All other modules get the time from here.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock;

impl Clock {
    /// Milliseconds since 1970; 0 if the machine's clock is before that.
    #[expect(clippy::disallowed_methods, reason = "this is the place that the lint points to")]
    #[expect(clippy::unused_self, reason = "who may know the time holds a clock")]
    pub(crate) fn now_unix_ms(self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
