//! The only module that reads the time of day. Durations come from the monotonic clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since 1970, UTC; 0 if the machine's clock shows an earlier time.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the time of day")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Time since the machine started, including the time in which it slept, as the start times of processes in `/proc` count it: with the
/// offsets of the agent's time namespace. `/proc/uptime` may be that of a container (lxcfs).
pub fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// A time as the wire has it.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// CPU time of this thread. Time in which other threads run is not included.
pub(crate) fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
