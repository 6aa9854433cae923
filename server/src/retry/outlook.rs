//! What a retry costs, how long to wait before it, and what waiting saves.

use super::{policy::Terms, seen::Helped};
use crate::domain::{AttemptId, Bytes, Cost, Millis, Prediction};

/// Chance that trouble outside the build is over at once. A judgement, until retries of the same failure were measured.
const OVER_AT_ONCE: f64 = 0.5;

/// What the next attempt holds: requested memory and CPU, for as long as half of the attempts take.
pub(super) fn cost(next: &Prediction) -> Cost {
    let time = Millis(next.wall_p50.value);
    Cost {
        memory_gib_h: Bytes(next.memory_request.value).gib_hours(time),
        // a count of millicores: the type only lends its conversion
        cpu_core_h: Millis(next.cpu_request.value).as_f64() / 1000.0 * time.hours(),
    }
}

/// How long to wait, and the memory time that is not lost by waiting: the cost of a retry that would fail at once, times the
/// chance that it would.
pub(super) fn wait(
    terms: &Terms,
    (attempt, number): (&AttemptId, u32),
    cost: Cost,
    helped: Helped,
) -> (Millis, f64) {
    let wait = terms.wait_before(attempt, number);
    if wait.0 == 0 {
        return (wait, 0.0);
    }
    let over = if helped.tried > 0 { helped.rate() } else { OVER_AT_ONCE };
    (wait, cost.memory_gib_h * (1.0 - over))
}
