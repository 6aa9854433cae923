//! Replaces guesses by the operator's defaults: below [`MIN_CONFIDENCE`] an answer has the sizes configured for an unknown build, and its
//! reason says so. Memory sizes are never below what attempts of the package are known to need.

use plimsoll_proto::{
    figures,
    reasons::{MIN_CONFIDENCE, SizeBound},
};

use super::{Settings, defaults, memory, similar::SimilarAttempts, words};
use crate::domain::{Key, Prediction, Quantity, Rung};

/// Whether a prediction is based on too few or too different builds to be used.
pub fn is_guess(prediction: &Prediction) -> bool {
    let mut sizes = [&prediction.memory_request, &prediction.memory_limit].into_iter();
    let is_share = sizes.any(|size| size.basis.quantile > 0.0) && prediction.lower_bound.is_none();
    is_of_others(prediction) || (is_unsure(prediction) && is_share)
}

/// Whether the prediction is a guess because its attempts are of other packages: a guess from them alone is not used.
pub(super) fn is_of_others(prediction: &Prediction) -> bool {
    let Prediction { memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95, .. } =
        prediction;
    let mut numbers = [memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95].into_iter();
    is_unsure(prediction)
        && numbers.any(|number| matches!(number.basis.rung, Rung::Fleet | Rung::BuildSystem))
}

fn is_unsure(prediction: &Prediction) -> bool {
    prediction.confidence < MIN_CONFIDENCE
}

/// Replaces each number of low confidence by the operator's default. Memory sizes that follow from kills are not guesses, and stay.
pub(super) fn replace_guesses(
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
            // the prediction had this many attempts, which is too few to be used
            quantity.basis.attempts = prediction.attempts;
        }
    }
    for (own, default) in prediction.quantities_mut().into_iter().zip(default.quantities_mut()) {
        let confidence = own.basis.confidence.unwrap_or(0.0);
        if own.basis.is_default() || confidence < MIN_CONFIDENCE {
            own.clone_from(default);
        }
    }
    make_consistent(prediction);
}

/// Makes pairs of numbers consistent (CPU request and limit, the two wall times), because one may be known and the other a default.
fn make_consistent(prediction: &mut Prediction) {
    let Prediction { cpu_request, cpu_limit, wall_p50, wall_p95, .. } = prediction;
    for (lower, upper) in [(cpu_request, cpu_limit), (wall_p50, wall_p95)] {
        if upper.basis.is_default() {
            upper.value = upper.value.max(lower.value);
        }
        lower.value = lower.value.min(upper.value);
    }
}

/// Names the attempts that are too few to decide, and says that the default, `limit`, is used.
fn reason(prediction: &Prediction, similar: &SimilarAttempts<'_>, key: &Key, limit: &Quantity) -> String {
    let is_default = limit.basis.bound == SizeBound::Default;
    let attempts = figures::counted(prediction.attempts.into(), "attempt");
    let known = if similar.knows_package() { "too little" } else { "nothing" };
    let (scope, sure) = (words::rung_scope(similar.main_rung()), figures::percent(prediction.confidence));
    let but = if is_default { "" } else { ", but no less than attempts of the package have needed" };
    format!(
        "{known} is known about {} yet, so this is the configured default{but}: {attempts}, mostly of {scope}, would be only {sure} sure",
        key.describe()
    )
}
