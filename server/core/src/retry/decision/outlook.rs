//! The cost of a retry, the wait before it, and what waiting saves.

use crate::domain::{AttemptId, Bytes, Millis, Prediction, Quantity, ReservationCost, Rung, Summary};
use crate::retry::{decision::policy::RetryTerms, known::known_failures::RetrySuccess};

/// Chance that a fault outside the build is over at once. It is a judgement, used until retries of the same failure were measured.
const OVER_AT_ONCE: f64 = 0.5;

/// What the next attempt reserves: requested memory and CPU, multiplied by the median time. If no attempt in the history shows time or CPU,
/// those of the judged attempt are used, because a default says nothing about this build. `None` if the time is unknown.
pub(in crate::retry) fn retry_cost(next: &Prediction, measured: Option<&Summary>) -> Option<ReservationCost> {
    let known = |quantity: &Quantity| quantity.basis.rung != Rung::Default;
    let took = measured.map(|summary| summary.wall).filter(|wall| wall.0 > 0);
    let time = if known(&next.wall_p50) { Some(Millis(next.wall_p50.value)) } else { took }?;
    let asks = measured.is_some_and(|summary| summary.resources.cpu_request.is_some());
    let used = measured.and_then(Summary::measured_cpu).map_or(0.0, |cpu| cpu.as_f64() / 3.6e9);
    // `cpu_request` is a count of millicores: `Millis` only converts it
    let requested = Millis(next.cpu_request.value).as_f64() / 1000.0 * time.hours();
    Some(ReservationCost {
        memory_gib_h: Bytes(next.memory_request.value).gib_hours(time),
        cpu_core_h: if asks || known(&next.cpu_request) { requested } else { used },
    })
}

/// The wait before a retry, and the GiB x h that it saves: the cost of a retry made at once, multiplied by the chance that such a retry
/// fails.
pub(in crate::retry) fn retry_wait(
    terms: &RetryTerms,
    attempt: &AttemptId,
    number: u32,
    cost: ReservationCost,
    helped: RetrySuccess,
) -> (Millis, f64) {
    let wait = terms.wait_before(attempt, number);
    if wait.0 == 0 {
        return (wait, 0.0);
    }
    let over = if helped.tried > 0 { helped.rate() } else { OVER_AT_ONCE };
    (wait, cost.memory_gib_h * (1.0 - over))
}
