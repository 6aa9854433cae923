//! The next allocation: what the attempt had, and only the dimension that was short grows.

use super::Policy;
use crate::{
    domain::{Bytes, Cores, Evidence, Millis, Prediction, Quantity, Summary},
    predict::Settings,
};

/// Confidence from which a prediction speaks for this build, and not for the default or the fleet.
const HISTORY_SAYS: f64 = 0.3;

/// The size that the history suggests above one that was too little.
pub(super) type Above<'a> = &'a dyn Fn(Bytes) -> Bytes;

/// What to ask for if the next attempt is like the one that ended; what is not known of it is predicted.
pub(super) fn as_it_was(
    predicted: &Prediction,
    measured: Option<&Summary>,
    settings: &Settings,
) -> Prediction {
    let mut next = predicted.clone();
    let Some(had) = measured.map(|summary| summary.resources) else { return next };
    let memory = |quantity: &mut Quantity, size: Option<Bytes>| {
        if let Some(size) = size {
            let (size, bound) = settings.bound_memory(size);
            keep(quantity, size.0, bound);
        }
    };
    memory(&mut next.memory_limit, had.memory_limit);
    memory(&mut next.memory_request, had.memory_asked());
    let cpu = |quantity: &mut Quantity, size: Option<Cores>| {
        if let Some(size) = size {
            // a count of millicores: the type only lends its conversion
            keep(quantity, Millis::from_f64(size.0 * 1000.0).0.max(1), String::new());
            // whatever is known of others, this is what it had
            quantity.basis.confidence = Some(1.0);
        }
    };
    cpu(&mut next.cpu_request, had.cpu_request);
    cpu(&mut next.cpu_limit, had.cpu_limit);
    order(&mut next);
    next
}

fn keep(quantity: &mut Quantity, value: u64, bound: String) {
    quantity.value = value;
    quantity.basis.quantile = 0.0;
    quantity.basis.margin = 1.0;
    quantity.basis.bound = if bound.is_empty() { "as the last attempt had".to_owned() } else { bound };
}

fn order(next: &mut Prediction) {
    // what was asked for before is kept; the side that was only predicted gives way
    next.memory_limit.value = next.memory_limit.value.max(next.memory_request.value);
    next.cpu_limit.value = next.cpu_limit.value.max(next.cpu_request.value);
}

/// The largest memory that the attempt is known to have had or used.
pub(super) fn memory_had(predicted: &Prediction, measured: Option<&Summary>) -> Bytes {
    let known =
        measured.map(|summary| summary.resources.memory_limit.unwrap_or_default().max(summary.stopped_at()));
    known.filter(|size| size.0 > 0).unwrap_or(Bytes(predicted.memory_limit.value))
}

/// Memory for an attempt that had too little: what the history says of builds that need more than where it was stopped, or
/// where its own growth leads if that is more; the operator's factor where nothing is known. Never above the cap.
pub(super) fn grow_memory(
    next: &mut Prediction,
    predicted: &Prediction,
    evidence: &Evidence,
    policies: (&Settings, &Policy, Above<'_>),
) {
    let (settings, policy, above) = policies;
    let measured = evidence.measured.as_deref();
    let stopped = measured
        .map(Summary::stopped_at)
        .filter(|size| size.0 > 0)
        .unwrap_or_else(|| memory_had(predicted, measured));
    let least = Bytes(stopped.0.saturating_add(policy.grow_least.0));
    let factor = if policy.grow_factor.is_finite() { policy.grow_factor.max(1.0) } else { 1.0 };
    let known = predicted.confidence >= HISTORY_SAYS;
    let forecast = if known { forecast(evidence, predicted, stopped) } else { Bytes(0) };
    let step = if known { above(stopped) } else { Bytes::from_f64(stopped.as_f64() * factor) };
    let grown = step.max(least).max(forecast).ceil_mib();
    let had = measured.map(|summary| summary.resources).unwrap_or_default();
    for (quantity, predicted, had) in [
        (&mut next.memory_limit, &predicted.memory_limit, had.memory_limit),
        (&mut next.memory_request, &predicted.memory_request, had.memory_asked()),
    ] {
        let had = had.unwrap_or_default();
        if known && predicted.value > grown.max(had).0 {
            *quantity = predicted.clone();
            continue;
        }
        // somebody else's limit stopped it far below its own, which then was not short: it stays as it was
        if had > grown {
            continue;
        }
        let (size, bound) = settings.bound_memory(grown);
        keep(quantity, size.0, bound);
        quantity.basis.margin = size.as_f64() / stopped.as_f64().max(1.0);
        if quantity.basis.bound.starts_with("as the") {
            quantity.basis.bound = format!("above {stopped}, where it was stopped");
        }
    }
    order(next);
}

/// Where the need would be if it went on growing as it did before the end, for as long as half of the attempts take. At most
/// twice where it was stopped: nothing grows in a straight line for ever.
fn forecast(evidence: &Evidence, predicted: &Prediction, stopped: Bytes) -> Bytes {
    let (Some(growth), Some(measured)) = (evidence.growth, evidence.measured.as_deref()) else {
        return Bytes(0);
    };
    let left = Millis(predicted.wall_p50.value).saturating_sub(measured.wall).as_f64() / 1000.0;
    let most = Bytes(stopped.0.saturating_mul(2));
    Bytes::from_f64(growth.need.as_f64() + growth.per_second * left).min(most)
}

/// More time for an attempt that used all of its own.
pub(super) fn grow_time(next: &mut Prediction, measured: Option<&Summary>, policy: &Policy) {
    let Some(wall) = measured.map(|summary| summary.wall).filter(|wall| wall.0 > 0) else { return };
    let factor = if policy.grow_factor.is_finite() { policy.grow_factor.max(1.0) } else { 1.0 };
    let longer = Millis::from_f64(wall.as_f64() * factor);
    for (quantity, time) in [(&mut next.wall_p50, wall), (&mut next.wall_p95, longer)] {
        if quantity.value < time.0 {
            quantity.value = time.0;
            quantity.basis.bound = format!("above {wall}, which was not enough");
        }
    }
}

/// Half of the build jobs in the largest place there is.
pub(super) fn fewer_jobs(next: &mut Prediction, jobs: u64, cap: Bytes) {
    next.build_jobs.value = (jobs / 2).max(1);
    next.build_jobs.basis.bound = format!("half of {jobs}, because {cap} is the most memory there is");
    for quantity in [&mut next.memory_request, &mut next.memory_limit] {
        keep(quantity, cap.0.max(1), format!("cap of {cap}"));
    }
}
