//! Limits how far a memory size decreases from one prediction to the next, if the operator sets a limit. Small decreases are not made at
//! all.
//!
//! Sizes are compared with the prediction that the newest attempt of the same key, build jobs and input got at its start. That prediction
//! is stored in the history, so the same history gives the same answer. Increases are not limited.

use plimsoll_proto::reasons::SizeBound;

use super::{Settings, memory::MemorySizes, similar::is_near};
use crate::domain::{Bytes, History, Key, Quantity, Rung, RungObservation};

/// Least decrease, as a share; smaller ones are not made (openshift/ci-tools: changes below 5 % are not worth the churn).
const MIN_DECREASE: f64 = 0.05;

/// Raises memory request and limit where they decrease by more than the operator allows, or by too little to be worth a change.
pub(super) fn bound_decrease(sizes: &mut MemorySizes, history: &History, key: &Key, settings: &Settings) {
    let Some(most) = settings.max_decrease else { return };
    let Some([request, limit]) = last_given(history, key) else { return };
    raise_to_bound(&mut sizes.request, request, most, settings);
    raise_to_bound(&mut sizes.limit, limit, most, settings);
    sizes.raise_limit_to_request();
}

/// The memory request and limit that the newest attempt of the same build got at its start.
fn last_given(history: &History, key: &Key) -> Option<[Bytes; 2]> {
    let jobs = key.hints.build_jobs.unwrap_or(0);
    let input = key.hints.input_bytes.filter(|bytes| *bytes > 0);
    let same =
        |observation: &&RungObservation| u32::from(observation.jobs) == jobs && is_near(input, observation);
    history.on_rung(Rung::Exact, key).filter(same).find_map(RungObservation::predicted_at_start)
}

fn raise_to_bound(quantity: &mut Quantity, last: Bytes, most: f64, settings: &Settings) {
    let share = Bytes(quantity.value).as_f64() / last.as_f64().max(1.0);
    if share >= 1.0 {
        return;
    }
    let least = if share >= 1.0 - MIN_DECREASE {
        last
    } else {
        Bytes::from_f64(last.as_f64() * (1.0 - most.min(1.0)))
    };
    if least.0 > quantity.value {
        // the operator's cap may be below the earlier prediction
        let (size, cap) = settings.bound_memory(least.ceil_mib());
        quantity.value = size.0;
        quantity.basis.bound =
            if cap == SizeBound::None { SizeBound::LastSize(last.to_string()) } else { cap };
    }
}
