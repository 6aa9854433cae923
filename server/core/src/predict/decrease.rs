//! Bounded decreases, where the operator wants them: a size goes down in steps, and not for a trifle.
//!
//! What a size goes down from is what was predicted for the newest attempt of the same key, with the same build jobs and the same
//! input, when it opened. So it is part of the history, and the same history gives the same answer. Increases are not bounded.

use plimsoll_proto::reasons::SizeBound;

use super::{Settings, memory::MemorySizes, similar::is_near};
use crate::domain::{Bytes, History, Key, Quantity, Rung, RungObservation};

/// A size that would go down by less than this share stays as it is (openshift/ci-tools: changes below 5 % are not worth the
/// unrest).
const TRIFLE: f64 = 0.05;

/// Holds request and limit up, if they would go down too far.
pub(super) fn bound(sizes: &mut MemorySizes, history: &History, key: &Key, settings: &Settings) {
    let Some(most) = settings.max_decrease else { return };
    let Some([request, limit]) = last_given(history, key) else { return };
    hold(&mut sizes.request, request, most, settings);
    hold(&mut sizes.limit, limit, most, settings);
    if sizes.limit.value < sizes.request.value {
        sizes.limit.value = sizes.request.value;
        sizes.limit.basis.bound = SizeBound::Request;
    }
}

/// What was predicted for the newest attempt that was the same build.
fn last_given(history: &History, key: &Key) -> Option<[Bytes; 2]> {
    let jobs = key.hints.build_jobs.unwrap_or(0);
    let input = key.hints.input_bytes.filter(|bytes| *bytes > 0);
    let same =
        |observation: &&RungObservation| u32::from(observation.jobs) == jobs && is_near(input, observation);
    history.on_rung(Rung::Exact, key).filter(same).find_map(RungObservation::predicted_at_start)
}

fn hold(quantity: &mut Quantity, last: Bytes, most: f64, settings: &Settings) {
    let share = Bytes(quantity.value).as_f64() / last.as_f64().max(1.0);
    if share >= 1.0 {
        return;
    }
    let least =
        if share >= 1.0 - TRIFLE { last } else { Bytes::from_f64(last.as_f64() * (1.0 - most.min(1.0))) };
    if least.0 > quantity.value {
        // a cap is lower than what was given before it
        let (size, cap) = settings.bound_memory(least.ceil_mib());
        quantity.value = size.0;
        quantity.basis.bound =
            if cap == SizeBound::None { SizeBound::LastSize(last.to_string()) } else { cap };
    }
}
