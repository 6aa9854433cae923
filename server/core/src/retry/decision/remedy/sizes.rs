//! The sizes that an attempt had: those that its agent or its pod reports, and predicted ones where they are unknown.

use plimsoll_base::quantity::rounded_millicores;
use plimsoll_proto::{limits, reasons::SizeBound};

use crate::{
    domain::{Bytes, Cores, Evidence, Millis, Prediction, Quantity, Resources, Summary},
    predict::Settings,
};

/// Memory sizes that an attempt had. Values that are no real sizes are left out: 0 means none, and more than any machine has means no
/// limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizesHad {
    pub(super) request: Option<Bytes>,
    pub(super) limit: Option<Bytes>,
    /// Whether the request exceeded the limit, so that only the limit was available.
    is_above_limit: bool,
}

pub(super) fn is_size(size: Bytes) -> bool {
    (1..=limits::MEMORY_BYTES).contains(&size.0)
}

pub(super) fn sizes_had(had: &Resources) -> SizesHad {
    let limit = had.memory_limit.filter(|size| is_size(*size));
    let asked = had.memory_request.filter(|size| is_size(*size)).or(limit);
    let is_cut = asked.zip(limit).is_some_and(|(asked, limit)| asked > limit);
    SizesHad { request: if is_cut { limit } else { asked }, limit, is_above_limit: is_cut }
}

/// The sizes that the ended attempt had; sizes that are unknown are predicted.
pub(super) fn unchanged(
    predicted: &Prediction,
    measured: Option<&Summary>,
    settings: &Settings,
) -> Prediction {
    // the lower bound may come from kills of other attempts; these sizes are only those of this attempt
    let mut next = Prediction {
        lower_bound: None,
        taken_back: None,
        unsure_because: String::new(),
        is_of_package: false,
        ..predicted.clone()
    };
    let Some(had) = measured.map(|summary| summary.resources) else { return next };
    let sizes = sizes_had(&had);
    let kept = if sizes.is_above_limit { SizeBound::LastLimit } else { SizeBound::LastAttempt };
    keep_memory(&mut next.memory_limit, sizes.limit, SizeBound::LastAttempt, settings);
    keep_memory(&mut next.memory_request, sizes.request, kept, settings);
    // `size.0 * 1000.0` is a count of millicores: `Millis` only converts it
    let millicores = |size: Cores| Millis::from_f64(size.0 * 1000.0).0.max(1);
    let most = had.cpu_limit.map_or(f64::INFINITY, |limit| limit.0);
    keep_cpu(&mut next.cpu_request, had.cpu_request.map(|asked| millicores(Cores(asked.0.min(most)))));
    keep_cpu(&mut next.cpu_limit, had.cpu_limit.map(millicores));
    make_consistent(&mut next);
    next
}

/// The prediction with the sizes of the attempt's pod, if they are known.
pub(in crate::retry) fn as_its_pod(
    mut predicted: Prediction,
    evidence: &Evidence,
    settings: &Settings,
) -> Prediction {
    let Some(had) = evidence.pod_sizes else { return predicted };
    keep_memory(&mut predicted.memory_limit, had.memory_limit, SizeBound::LastAttempt, settings);
    keep_memory(&mut predicted.memory_request, had.memory_asked(), SizeBound::LastAttempt, settings);
    let millicores = |size: Cores| Some(rounded_millicores(size.0)).filter(|size| *size > 0);
    keep_cpu(&mut predicted.cpu_request, had.cpu_request.and_then(millicores));
    keep_cpu(&mut predicted.cpu_limit, had.cpu_limit.and_then(millicores));
    // request or limit may still be a prediction: the two are made consistent
    predicted.memory_limit.value = predicted.memory_limit.value.max(predicted.memory_request.value);
    predicted.cpu_limit.value = predicted.cpu_limit.value.max(predicted.cpu_request.value);
    predicted
}

/// Sets a memory size that is known, within the operator's bounds.
pub(super) fn keep_memory(
    quantity: &mut Quantity,
    size: Option<Bytes>,
    kept: SizeBound,
    settings: &Settings,
) {
    if let Some(size) = size {
        let (size, bound) = settings.bound_memory(size);
        set_kept(quantity, size.0, if bound == SizeBound::None { kept } else { bound });
    }
}

fn keep_cpu(quantity: &mut Quantity, millicores: Option<u64>) {
    if let Some(millicores) = millicores {
        set_kept(quantity, millicores, SizeBound::LastAttempt);
        // the attempt had this size for certain
        quantity.basis.confidence = Some(1.0);
    }
}

/// Sets a number that does not follow from attempts in the history.
pub(super) fn set_kept(quantity: &mut Quantity, value: u64, bound: SizeBound) {
    quantity.value = value;
    quantity.basis.quantile = 0.0;
    quantity.basis.margin = 1.0;
    quantity.basis.attempts = 0;
    quantity.basis.bound = bound;
}

/// Makes request and limit consistent: sizes that the attempt had are kept, and a predicted limit below the request is raised to it.
pub(super) fn make_consistent(next: &mut Prediction) {
    let raise = |limit: &mut Quantity, request: &Quantity| {
        if limit.value < request.value {
            set_kept(limit, request.value, SizeBound::Request);
        }
    };
    raise(&mut next.memory_limit, &next.memory_request);
    raise(&mut next.cpu_limit, &next.cpu_request);
}
