//! Sizes of an attempt without an agent, from its pod. They replace the sizes that were predicted for it.

use plimsoll_proto::{quantity, reasons::SizeBound};

use crate::{
    domain::{Bytes, Evidence, Prediction, Quantity},
    predict::Settings,
};

/// The prediction with the sizes of the attempt's pod, if they are known.
pub(super) fn as_its_pod(mut predicted: Prediction, evidence: &Evidence, settings: &Settings) -> Prediction {
    let Some(had) = evidence.pod_sizes else { return predicted };
    let set = |quantity: &mut Quantity, had: Option<(u64, SizeBound)>| {
        let Some((value, bound)) = had.filter(|(value, _)| *value > 0) else { return false };
        quantity.value = value;
        quantity.basis.quantile = 0.0;
        quantity.basis.margin = 1.0;
        quantity.basis.attempts = 0;
        quantity.basis.bound = if bound == SizeBound::None { SizeBound::LastAttempt } else { bound };
        true
    };
    let memory = |size: Bytes| {
        let (size, bound) = settings.bound_memory(size);
        (size.0, bound)
    };
    set(&mut predicted.memory_limit, had.memory_limit.map(memory));
    set(&mut predicted.memory_request, had.memory_asked().map(memory));
    for (quantity, had) in
        [(&mut predicted.cpu_request, had.cpu_request), (&mut predicted.cpu_limit, had.cpu_limit)]
    {
        if set(quantity, had.map(|cores| (quantity::rounded_millicores(cores.0), SizeBound::None))) {
            // the attempt had this size for certain
            quantity.basis.confidence = Some(1.0);
        }
    }
    // request or limit may still be a prediction: the two are made consistent
    predicted.memory_limit.value = predicted.memory_limit.value.max(predicted.memory_request.value);
    predicted.cpu_limit.value = predicted.cpu_limit.value.max(predicted.cpu_request.value);
    predicted
}
