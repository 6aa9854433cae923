//! The next allocation: what the attempt had, and only the dimension that was short grows.

use plimsoll_proto::{limits, reasons::SizeBound};

use super::Policy;
use crate::{
    domain::{Bytes, Cores, Evidence, Millis, Prediction, Quantity, Resources, Summary},
    predict::Settings,
};

/// Confidence from which a prediction speaks for this build, and not for the default or the fleet.
const HISTORY_SAYS: f64 = 0.3;
/// A size within this share of the cap is at the cap: so small a step is no bigger place.
const NO_STEP: f64 = 0.05;

/// The size that the history suggests above one that was too little.
pub(super) type Above<'a> = &'a dyn Fn(Bytes) -> Bytes;

/// Where memory stopped an attempt: what the next size is about, whatever the attempt had asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoppedAt {
    /// What is proven to be too little.
    pub(super) size: Bytes,
    /// Nothing was measured: it is the limit that is predicted for such a build.
    pub(super) is_assumed: bool,
}

impl StoppedAt {
    /// The limit that held, or the need above it that was seen; without both, what is predicted for it.
    pub(super) fn of(predicted: &Prediction, measured: Option<&Summary>) -> Self {
        let limit = |summary: &Summary| sizes_had(&summary.resources).limit;
        let stopped = measured.map(Summary::stopped_at).filter(|size| is_size(*size));
        let predicted = &predicted.memory_limit;
        // the sizes of its pod stand in the prediction, where they are known
        let is_assumed = predicted.basis.bound != SizeBound::LastAttempt;
        let known = stopped.or_else(|| measured.and_then(limit)).map(|size| Self { size, is_assumed: false });
        known.unwrap_or(Self { size: Bytes(predicted.value), is_assumed })
    }

    /// No larger place is left: less than a step that could help is missing.
    pub(super) fn is_at(self, cap: Bytes) -> bool {
        self.size.as_f64() * (1.0 + NO_STEP) > cap.as_f64()
    }

    fn bound(self) -> SizeBound {
        let size = self.size.to_string();
        if self.is_assumed { SizeBound::MayHaveHad(size) } else { SizeBound::Stopped(size) }
    }
}

/// Memory that an attempt had, as far as that was a size: 0 is none, and more than any machine has is no limit.
#[derive(Debug, Clone, Copy)]
struct SizesHad {
    request: Option<Bytes>,
    limit: Option<Bytes>,
    /// It asked for more than its limit let it have, so it had its limit.
    is_cut: bool,
}

fn is_size(size: Bytes) -> bool {
    (1..=limits::MEMORY_BYTES).contains(&size.0)
}

fn sizes_had(had: &Resources) -> SizesHad {
    let limit = had.memory_limit.filter(|size| is_size(*size));
    let asked = had.memory_request.filter(|size| is_size(*size)).or(limit);
    let is_cut = asked.zip(limit).is_some_and(|(asked, limit)| asked > limit);
    SizesHad { request: if is_cut { limit } else { asked }, limit, is_cut }
}

/// What to ask for if the next attempt is like the one that ended; what is not known of it is predicted.
pub(super) fn as_it_was(
    predicted: &Prediction,
    measured: Option<&Summary>,
    settings: &Settings,
) -> Prediction {
    let mut next = predicted.clone();
    let Some(had) = measured.map(|summary| summary.resources) else { return next };
    let memory = |quantity: &mut Quantity, size: Option<Bytes>, kept: SizeBound| {
        if let Some(size) = size {
            let (size, bound) = settings.bound_memory(size);
            keep(quantity, size.0, if bound == SizeBound::None { kept } else { bound });
        }
    };
    let sizes = sizes_had(&had);
    let kept = if sizes.is_cut { SizeBound::LastLimit } else { SizeBound::LastAttempt };
    memory(&mut next.memory_limit, sizes.limit, SizeBound::LastAttempt);
    memory(&mut next.memory_request, sizes.request, kept);
    let cpu = |quantity: &mut Quantity, size: Option<Cores>| {
        if let Some(size) = size {
            // a count of millicores: the type only lends its conversion
            keep(quantity, Millis::from_f64(size.0 * 1000.0).0.max(1), SizeBound::LastAttempt);
            // whatever is known of others, this is what it had
            quantity.basis.confidence = Some(1.0);
        }
    };
    let most = had.cpu_limit.map_or(f64::INFINITY, |limit| limit.0);
    cpu(&mut next.cpu_request, had.cpu_request.map(|asked| Cores(asked.0.min(most))));
    cpu(&mut next.cpu_limit, had.cpu_limit);
    order(&mut next);
    next
}

/// Sets a number that no attempt of the history decided.
fn keep(quantity: &mut Quantity, value: u64, bound: SizeBound) {
    quantity.value = value;
    quantity.basis.quantile = 0.0;
    quantity.basis.margin = 1.0;
    quantity.basis.attempts = 0;
    quantity.basis.bound = bound;
}

/// What was asked for before is kept; the side that was only predicted gives way, and says so.
fn order(next: &mut Prediction) {
    let raise = |limit: &mut Quantity, request: &Quantity| {
        if limit.value < request.value {
            keep(limit, request.value, SizeBound::Request);
        }
    };
    raise(&mut next.memory_limit, &next.memory_request);
    raise(&mut next.cpu_limit, &next.cpu_request);
}

/// Memory for an attempt that had too little: what the history says of builds that need more than where it was stopped, or
/// where its own growth leads if that is more; the operator's factor where nothing is known. Never above the cap.
///
/// What it asked for beyond where it was stopped it never had, so that counts for nothing. A limit of its own that was not short,
/// because another one held, stays where the history does not know better.
pub(super) fn grow_memory(
    next: &mut Prediction,
    predicted: &Prediction,
    evidence: &Evidence,
    policies: (&Settings, &Policy, Above<'_>),
) {
    let (settings, policy, above) = policies;
    let measured = evidence.measured.as_deref();
    let stopped = StoppedAt::of(predicted, measured);
    let known = predicted.confidence >= HISTORY_SAYS;
    let step =
        if known { above(stopped.size) } else { Bytes::from_f64(stopped.size.as_f64() * factor(policy)) };
    let least = Bytes(stopped.size.0.saturating_add(policy.grow_least.0));
    let forecast = if known { forecast(evidence, predicted, stopped.size) } else { Bytes(0) };
    let grown = step.max(least).max(forecast).ceil_mib();
    let own = measured.and_then(|summary| sizes_had(&summary.resources).limit);
    let grow = |quantity: &mut Quantity, predicted: &Quantity| {
        if known && predicted.value > grown.0 {
            *quantity = predicted.clone();
            return;
        }
        let (size, bound) = settings.bound_memory(grown);
        keep(quantity, size.0, if bound == SizeBound::None { stopped.bound() } else { bound });
        quantity.basis.margin = size.as_f64() / stopped.size.as_f64().max(1.0);
        // the history chose how large the step is
        quantity.basis.attempts = if known { predicted.basis.attempts } else { 0 };
    };
    grow(&mut next.memory_request, &predicted.memory_request);
    if known || own.is_none_or(|own| own <= grown) {
        grow(&mut next.memory_limit, &predicted.memory_limit);
    }
    order(next);
}

fn factor(policy: &Policy) -> f64 {
    if policy.grow_factor.is_finite() { policy.grow_factor.max(1.0) } else { 1.0 }
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
    let longer = Millis::from_f64(wall.as_f64() * factor(policy));
    for (quantity, time) in [(&mut next.wall_p50, wall), (&mut next.wall_p95, longer)] {
        if quantity.value < time.0 {
            keep(quantity, time.0, SizeBound::TooShort(wall.to_string()));
        }
    }
}

/// Half of the build jobs in the largest place there is.
pub(super) fn fewer_jobs(next: &mut Prediction, jobs: u64, cap: Bytes) {
    keep(&mut next.build_jobs, (jobs / 2).max(1), SizeBound::HalfOf { jobs, most: cap.to_string() });
    for quantity in [&mut next.memory_request, &mut next.memory_limit] {
        keep(quantity, cap.0.max(1), SizeBound::Cap(cap.to_string()));
    }
}

/// As many build jobs as fit into the most memory there is.
pub(super) fn jobs_that_fit(next: &mut Prediction, jobs: u64) {
    let most = Bytes(next.memory_limit.value).to_string();
    keep(&mut next.build_jobs, jobs, SizeBound::RoomIn(most));
}
