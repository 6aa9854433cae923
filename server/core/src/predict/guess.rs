//! Replaces guesses by the operator's defaults: below [`LEAST_CONFIDENCE`] an answer has the configured sizes for an unknown build, and
//! says so. No memory size is below what attempts of the package are known to need.

use plimsoll_proto::{
    figures,
    reasons::{LEAST_CONFIDENCE, SizeBound},
};

use super::{Settings, defaults, memory, similar::SimilarAttempts, words};
use crate::domain::{Key, Prediction, Quantity, Rung};

/// Whether a number rests on too few or too different builds to use it.
pub fn is_guess(prediction: &Prediction) -> bool {
    let mut sizes = [&prediction.memory_request, &prediction.memory_limit].into_iter();
    let is_share = sizes.any(|size| size.basis.quantile > 0.0) && prediction.lower_bound.is_none();
    is_of_others(prediction) || (is_unsure(prediction) && is_share)
}

/// Whether the reason is that those builds are of other packages: they never decide alone.
pub(super) fn is_of_others(prediction: &Prediction) -> bool {
    let Prediction { memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95, .. } =
        prediction;
    let mut numbers = [memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95].into_iter();
    is_unsure(prediction)
        && numbers.any(|number| matches!(number.basis.rung, Rung::Fleet | Rung::BuildSystem))
}

fn is_unsure(prediction: &Prediction) -> bool {
    prediction.confidence < LEAST_CONFIDENCE
}

/// Replaces all numbers that are not well known themselves by the defaults. Memory sizes after kills are not guesses, and stay.
pub(super) fn replace(
    prediction: &mut Prediction,
    similar: &SimilarAttempts<'_>,
    key: &Key,
    settings: &Settings,
) {
    let least = memory::least_sizes(similar, settings);
    let mut default =
        Prediction { memory_request: least.request, memory_limit: least.limit, ..defaults(key, settings) };
    if prediction.lower_bound.is_some() {
        default.memory_request.clone_from(&prediction.memory_request);
        default.memory_limit.clone_from(&prediction.memory_limit);
    } else {
        prediction.reason = reason(prediction, similar, key, &default.memory_limit);
    }
    for quantity in default.quantities_mut() {
        if quantity.basis.bound == SizeBound::Default {
            // so few attempts say too little about it
            quantity.basis.attempts = prediction.attempts;
        }
    }
    for (own, default) in prediction.quantities_mut().into_iter().zip(default.quantities_mut()) {
        let confidence = own.basis.confidence.unwrap_or(0.0);
        if own.basis.is_default() || confidence < LEAST_CONFIDENCE {
            own.clone_from(default);
        }
    }
    in_order(prediction);
}

/// Makes request and limit consistent: one may be known and the other a default.
fn in_order(prediction: &mut Prediction) {
    let Prediction { cpu_request, cpu_limit, wall_p50, wall_p95, .. } = prediction;
    for (lower, upper) in [(cpu_request, cpu_limit), (wall_p50, wall_p95)] {
        if upper.basis.is_default() {
            upper.value = upper.value.max(lower.value);
        }
        lower.value = lower.value.min(upper.value);
    }
}

/// Describes the size that is too small, and the one that replaces it: `limit`.
fn reason(prediction: &Prediction, similar: &SimilarAttempts<'_>, key: &Key, limit: &Quantity) -> String {
    let is_default = limit.basis.bound == SizeBound::Default;
    let attempts = figures::counted(prediction.attempts.into(), "attempt");
    let known = if similar.knows_package() { "too little" } else { "nothing" };
    let (scope, sure) = (words::scope(similar.main_rung()), figures::percent(prediction.confidence));
    let but = if is_default { "" } else { ", but no less than attempts of the package have needed" };
    format!(
        "{known} is known about {} yet, so this is the configured default{but}: {attempts}, mostly of {scope}, would be only {sure} sure",
        key.describe()
    )
}
