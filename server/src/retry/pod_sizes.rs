//! What an attempt had that nobody measured, by its pod: then a prediction is no reason to think that it had something else.

use plimsoll_proto::quantity;

use crate::{
    domain::{Evidence, Prediction, Quantity},
    predict::Settings,
};

/// The prediction with the sizes of the attempt's pod in it, where they are known.
pub(super) fn as_its_pod(mut predicted: Prediction, evidence: &Evidence, settings: &Settings) -> Prediction {
    let Some(had) = evidence.pod_sizes else { return predicted };
    let set = |quantity: &mut Quantity, value: Option<u64>| {
        let value = value.filter(|value| *value > 0);
        if let Some(value) = value {
            quantity.value = value;
            quantity.basis.quantile = 0.0;
            quantity.basis.margin = 1.0;
            "as the last attempt had".clone_into(&mut quantity.basis.bound);
        }
        value.is_some()
    };
    let memory = |size| settings.bound_memory(size).0.0;
    set(&mut predicted.memory_limit, had.memory_limit.map(memory));
    set(&mut predicted.memory_request, had.memory_asked().map(memory));
    for (quantity, had) in
        [(&mut predicted.cpu_request, had.cpu_request), (&mut predicted.cpu_limit, had.cpu_limit)]
    {
        if set(quantity, had.map(|cores| quantity::millicores(cores.0))) {
            // whatever is known of others, this is what it had
            quantity.basis.confidence = Some(1.0);
        }
    }
    // the side that was only predicted gives way
    predicted.memory_limit.value = predicted.memory_limit.value.max(predicted.memory_request.value);
    predicted.cpu_limit.value = predicted.cpu_limit.value.max(predicted.cpu_request.value);
    predicted
}
