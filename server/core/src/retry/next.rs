//! Computes the sizes of the next attempt: those of this one, where only the resource that was short is raised.

use plimsoll_proto::{limits, reasons::SizeBound};

use super::RetryPolicy;
use crate::{
    domain::{
        Bytes, Cores, Evidence, History, KNOWN_CONFIDENCE, Key, Millis, Outcome, Prediction, Quantity,
        Resources, Rung, Summary,
    },
    predict::{MemoryEnd, NextSize, Settings, next_size, predict},
};

/// A size within this share of the cap counts as at the cap, because so small a step does not help.
const NO_STEP_SHARE: f64 = 0.05;

/// Input for the sizes of a retry.
#[derive(Clone, Copy)]
pub(super) struct SizingInputs<'a> {
    pub(super) settings: &'a Settings,
    pub(super) policy: &'a RetryPolicy,
    /// The prediction for a first attempt of the build now. It includes this failure; a retry gets at least its sizes.
    pub(super) first: &'a Prediction,
    pub(super) history: &'a History,
    /// What is built.
    pub(super) key: &'a Key,
}

impl SizingInputs<'_> {
    /// The next size after memory ended a build.
    fn next(&self, end: MemoryEnd) -> NextSize {
        next_size(self.history, self.key, self.settings, end)
    }

    /// The share of builds like this one that a memory limit of `size` covers.
    fn covered(&self, size: Bytes) -> f64 {
        self.capped_limit(Some(size)).basis.quantile
    }

    /// The limit that would be predicted if the operator had set no cap.
    fn uncapped(&self) -> Bytes {
        Bytes(self.capped_limit(None).value)
    }

    fn capped_limit(&self, memory_cap: Option<Bytes>) -> Quantity {
        let settings = Settings { memory_cap, ..self.settings.clone() };
        predict(self.history, self.key, &settings).memory_limit
    }

    /// Whether an untrusted attempt of the package succeeded. Then the package is known, although no trusted attempt determines its size.
    pub(super) fn untrusted_succeeded(&self) -> bool {
        let mut untrusted = self.history.untrusted_on_rung(Rung::Package, self.key);
        untrusted.any(|observed| observed.brief.outcome == Outcome::Succeeded)
    }
}

/// The size at which memory stopped an attempt; it can be less than the attempt had requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoppedAt {
    /// The size that proved too small.
    pub(super) size: Bytes,
    /// Whether nothing was measured, so that the size is the limit predicted for a build of this key.
    pub(super) is_assumed: bool,
}

impl StoppedAt {
    /// The limit in force, or the measured need if that is higher; if neither is known, the predicted limit.
    pub(super) fn of(predicted: &Prediction, measured: Option<&Summary>) -> Self {
        let limit = |summary: &Summary| sizes_had(&summary.resources).limit;
        let stopped = measured.map(Summary::stopped_at).filter(|size| is_size(*size));
        let predicted = &predicted.memory_limit;
        // if the sizes of the attempt's pod are known, `predicted` has them in place of predicted sizes, with this bound
        let is_assumed = predicted.basis.bound != SizeBound::LastAttempt;
        let known = stopped.or_else(|| measured.and_then(limit)).map(|size| Self { size, is_assumed: false });
        known.unwrap_or(Self { size: Bytes(predicted.value), is_assumed })
    }

    /// Whether the cap leaves no useful step above the size.
    pub(super) fn is_near_cap(self, cap: Bytes) -> bool {
        self.size.as_f64() * (1.0 + NO_STEP_SHARE) > cap.as_f64()
    }
}

/// Memory sizes that an attempt had. Values that are no real sizes are left out: 0 means none, and more than any machine has means no
/// limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizesHad {
    pub(super) request: Option<Bytes>,
    pub(super) limit: Option<Bytes>,
    /// Whether the request exceeded the limit, so that only the limit was available.
    is_above_limit: bool,
}

fn is_size(size: Bytes) -> bool {
    (1..=limits::MEMORY_BYTES).contains(&size.0)
}

pub(super) fn sizes_had(had: &Resources) -> SizesHad {
    let limit = had.memory_limit.filter(|size| is_size(*size));
    let asked = had.memory_request.filter(|size| is_size(*size)).or(limit);
    let is_cut = asked.zip(limit).is_some_and(|(asked, limit)| asked > limit);
    SizesHad { request: if is_cut { limit } else { asked }, limit, is_above_limit: is_cut }
}

/// The sizes that the ended attempt had; sizes that are unknown are predicted.
pub(super) fn unchanged_sizes(
    predicted: &Prediction,
    measured: Option<&Summary>,
    settings: &Settings,
) -> Prediction {
    // the lower bound may come from kills of other attempts; these sizes are only those of this attempt
    let mut next = Prediction { lower_bound: None, unsure_because: String::new(), ..predicted.clone() };
    let Some(had) = measured.map(|summary| summary.resources) else { return next };
    let memory = |quantity: &mut Quantity, size: Option<Bytes>, kept: SizeBound| {
        if let Some(size) = size {
            let (size, bound) = settings.bound_memory(size);
            set_kept(quantity, size.0, if bound == SizeBound::None { kept } else { bound });
        }
    };
    let sizes = sizes_had(&had);
    let kept = if sizes.is_above_limit { SizeBound::LastLimit } else { SizeBound::LastAttempt };
    memory(&mut next.memory_limit, sizes.limit, SizeBound::LastAttempt);
    memory(&mut next.memory_request, sizes.request, kept);
    let cpu = |quantity: &mut Quantity, size: Option<Cores>| {
        if let Some(size) = size {
            // `size.0 * 1000.0` is a count of millicores: `Millis` only converts it
            set_kept(quantity, Millis::from_f64(size.0 * 1000.0).0.max(1), SizeBound::LastAttempt);
            // the attempt had this size for certain
            quantity.basis.confidence = Some(1.0);
        }
    };
    let most = had.cpu_limit.map_or(f64::INFINITY, |limit| limit.0);
    cpu(&mut next.cpu_request, had.cpu_request.map(|asked| Cores(asked.0.min(most))));
    cpu(&mut next.cpu_limit, had.cpu_limit);
    make_consistent(&mut next);
    next
}

/// Sets a number that does not follow from attempts in the history.
fn set_kept(quantity: &mut Quantity, value: u64, bound: SizeBound) {
    quantity.value = value;
    quantity.basis.quantile = 0.0;
    quantity.basis.margin = 1.0;
    quantity.basis.attempts = 0;
    quantity.basis.bound = bound;
}

/// Makes request and limit consistent: sizes that the attempt had are kept, and a predicted limit below the request is raised to it.
fn make_consistent(next: &mut Prediction) {
    let raise = |limit: &mut Quantity, request: &Quantity| {
        if limit.value < request.value {
            set_kept(limit, request.value, SizeBound::Request);
        }
    };
    raise(&mut next.memory_limit, &next.memory_request);
    raise(&mut next.cpu_limit, &next.cpu_request);
}

/// The next size above the one at which memory stopped this attempt.
fn grown_size(
    predicted: &Prediction,
    evidence: &Evidence,
    stopped: StoppedAt,
    sizing: SizingInputs<'_>,
) -> NextSize {
    let grown_to = forecast(evidence, predicted, stopped.size);
    let mut grown = sizing.next(MemoryEnd { stopped: stopped.size, grown_to });
    if let (true, SizeBound::Stopped(size)) = (stopped.is_assumed, &grown.bound) {
        grown.bound = SizeBound::MayHaveHad(size.clone());
    }
    grown
}

/// Whether the predicted limit follows from attempts of this build, not only from other builds or the default.
fn is_known(predicted: &Prediction) -> bool {
    predicted.is_known(&predicted.memory_limit, KNOWN_CONFIDENCE)
}

/// Raises the memory of an attempt that had too little: the highest of [`grown_size`], the prediction for a first attempt, and the size
/// that the previous attempt's verdict named; never above the cap. Defaults and needs of other packages are ignored, because they do not
/// measure this build.
///
/// A request above the size at which memory stopped the attempt was never available, so it is ignored. If another limit than the attempt's
/// own stopped it, the own limit is kept unless the history shows that more is needed.
pub(super) fn grow_memory(
    next: &mut Prediction,
    predicted: &Prediction,
    evidence: &Evidence,
    sizing: SizingInputs<'_>,
) {
    let measured = evidence.measured.as_deref();
    let stopped = StoppedAt::of(predicted, measured);
    let grown = grown_size(predicted, evidence, stopped, sizing);
    let own = measured.and_then(|summary| sizes_had(&summary.resources).limit);
    let first = sizing.first;
    let more_is_known = |own: Bytes| is_from_package(&first.memory_limit) && first.memory_limit.value > own.0;
    let limit_grows = is_known(predicted) || own.is_none_or(|own| own <= grown.size || more_is_known(own));
    let grow = |quantity: &mut Quantity, first: &Quantity| grow_to(quantity, first, &grown, stopped);
    grow(&mut next.memory_request, &first.memory_request);
    if limit_grows {
        grow(&mut next.memory_limit, &first.memory_limit);
    }
    if let Some(named) = evidence.named_before {
        keep_at_least(&mut next.memory_request, named.request, sizing.settings);
        keep_at_least(&mut next.memory_limit, named.limit, sizing.settings);
    }
    make_consistent(next);
}

/// Whether attempts of the same package determine the quantity.
fn is_from_package(first: &Quantity) -> bool {
    first.basis.rung >= Rung::Package
}

fn grow_to(quantity: &mut Quantity, first: &Quantity, grown: &NextSize, stopped: StoppedAt) {
    let times = |size: u64| Bytes(size).as_f64() / stopped.size.as_f64().max(1.0);
    // the prediction may follow from the kill of this very attempt; its reason is then replaced
    let is_by_kill =
        matches!(first.basis.bound, SizeBound::Stopped(_) | SizeBound::NeededAbove(_) | SizeBound::Grown(_));
    if is_from_package(first) && first.value >= grown.size.0 + u64::from(is_by_kill) {
        *quantity = first.clone();
        let basis = &mut quantity.basis;
        if is_by_kill {
            (basis.bound, basis.margin) =
                (SizeBound::NeededAbove(stopped.size.to_string()), times(first.value));
        }
        if basis.bound.is_cut() {
            // the capped size may not suffice, so no share of covered builds is named
            (basis.quantile, basis.margin) = (0.0, 1.0);
        }
        return;
    }
    set_kept(quantity, grown.size.0, grown.bound.clone());
    quantity.basis.margin = times(grown.size.0);
    quantity.basis.attempts = grown.attempts;
}

/// Keeps a size from falling below what the previous attempt's verdict named.
fn keep_at_least(quantity: &mut Quantity, named: Bytes, settings: &Settings) {
    let (named, bound) = settings.bound_memory(named);
    if quantity.value < named.0 {
        set_kept(quantity, named.0, if bound == SizeBound::None { SizeBound::VerdictBefore } else { bound });
    }
}

/// The size that builds like this one need, if it is above the cap and a retry at the cap is not worth it: most builds that need more than
/// the stopped size also need more than the cap.
pub(super) fn needed_above(cap: Bytes, stopped: StoppedAt, sizing: SizingInputs<'_>) -> Option<Bytes> {
    if !is_known(sizing.first) {
        return None;
    }
    let needed = sizing.uncapped();
    let [below, fit] = [stopped.size, cap].map(|size| sizing.covered(size));
    let chance = ((fit - below) / (1.0 - below).max(f64::EPSILON)).clamp(0.0, 1.0);
    (needed > cap && chance <= sizing.policy.least_chance).then_some(needed)
}

fn grow_factor(policy: &RetryPolicy) -> f64 {
    if policy.grow_factor.is_finite() { policy.grow_factor.max(1.0) } else { 1.0 }
}

/// The need that the attempt would have reached: its growth just before the end, extrapolated to the median time of the package. At most
/// twice the size at which memory stopped it, because growth does not stay linear. 0 if unknown.
fn forecast(evidence: &Evidence, predicted: &Prediction, stopped: Bytes) -> Bytes {
    let (Some(growth), Some(measured)) = (evidence.growth, evidence.measured.as_deref()) else {
        return Bytes(0);
    };
    if predicted.wall_p50.basis.rung < Rung::Package {
        return Bytes(0);
    }
    let left = Millis(predicted.wall_p50.value).saturating_sub(measured.wall).as_f64() / 1000.0;
    let most = Bytes(stopped.0.saturating_mul(2));
    Bytes::from_f64(growth.need.as_f64() + growth.per_second * left).min(most)
}

/// Raises the wall times for an attempt that used all of its time.
pub(super) fn grow_time(next: &mut Prediction, measured: Option<&Summary>, policy: &RetryPolicy) {
    let Some(wall) = measured.map(|summary| summary.wall).filter(|wall| wall.0 > 0) else { return };
    let longer = Millis::from_f64(wall.as_f64() * grow_factor(policy));
    for (quantity, time) in [(&mut next.wall_p50, wall), (&mut next.wall_p95, longer)] {
        if quantity.value < time.0 {
            set_kept(quantity, time.0, SizeBound::TooShort(wall.to_string()));
        }
    }
}

/// Halves the build jobs, and sets memory to the cap: the size of the largest pool.
pub(super) fn fewer_jobs(next: &mut Prediction, jobs: u64, cap: Bytes) {
    set_kept(&mut next.build_jobs, (jobs / 2).max(1), SizeBound::HalfOf(jobs, cap.to_string()));
    for quantity in [&mut next.memory_request, &mut next.memory_limit] {
        set_kept(quantity, cap.0.max(1), SizeBound::Cap(cap.to_string()));
    }
}

/// Sets the build jobs to `jobs`, as many as fit in the largest memory size.
pub(super) fn jobs_that_fit(next: &mut Prediction, jobs: u64) {
    let most = Bytes(next.memory_limit.value).to_string();
    set_kept(&mut next.build_jobs, jobs, SizeBound::RoomIn(most));
}
