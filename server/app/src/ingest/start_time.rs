//! Start time of an attempt: the agent's if its clock is plausible, else the server's estimate.
//!
//! Attempts are ordered by their start, and statistics assign them to time steps by it. A machine
//! with a wrong clock must not distort that, and its builds must not be lost either.

use plimsoll_core::domain::Millis;
use plimsoll_proto::limits;

/// How far an agent's clock may be ahead of the server's, milliseconds. Machines with NTP differ by
/// less than a second; others may drift by minutes.
const MAX_AHEAD_MS: u64 = 5 * 60 * 1000;

/// The start of an attempt, milliseconds since 1970, and whether it is the start that its agent
/// reported.
///
/// `elapsed` is the attempt's duration so far, or in total if it has ended; `received_unix_ms` is when the server got the message.
pub(crate) fn start(reported_unix_ms: u64, elapsed: Millis, received_unix_ms: u64) -> (u64, bool) {
    let ahead = reported_unix_ms.saturating_add(elapsed.0) > received_unix_ms.saturating_add(MAX_AHEAD_MS);
    let long_ago = reported_unix_ms < received_unix_ms.saturating_sub(limits::ELAPSED_MS);
    if ahead || long_ago {
        (received_unix_ms.saturating_sub(elapsed.0), false)
    } else {
        (reported_unix_ms, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_clock_that_may_be_right_is_believed() {
        for reported in [NOW - HOUR, NOW - HOUR + MAX_AHEAD_MS, NOW - 3 * HOUR, NOW - limits::ELAPSED_MS] {
            let late = start(reported, Millis(HOUR), NOW);
            assert_eq!(late, (reported, true), "a late delivery is no wrong clock");
        }
    }

    #[test]
    fn implausible_start_times_are_replaced_by_receipt_time() {
        for reported in [0, NOW - limits::ELAPSED_MS - 1, NOW - HOUR + MAX_AHEAD_MS + 1, NOW + HOUR, u64::MAX]
        {
            assert_eq!(start(reported, Millis(HOUR), NOW), (NOW - HOUR, false), "{reported}");
        }
        assert_eq!(start(u64::MAX, Millis(HOUR), 0), (0, false), "the server's own clock may be wrong, too");
    }
}
