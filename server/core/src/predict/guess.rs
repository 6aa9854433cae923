//! Replaces guesses by the operator's defaults: where all attempts are of other packages an answer has the sizes configured for an unknown
//! build, and its reason says so.

use plimsoll_proto::{
    figures,
    reasons::{MIN_CONFIDENCE, SizeBound},
};

use super::{Settings, defaults, similar::SimilarAttempts, words};
use crate::domain::{Key, Prediction, Rung};

/// Whether a prediction is a guess because its attempts are of other packages: it is not used.
pub fn is_guess(prediction: &Prediction) -> bool {
    let Prediction { memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95, .. } =
        prediction;
    let mut numbers = [memory_request, memory_limit, cpu_request, cpu_limit, wall_p50, wall_p95].into_iter();
    numbers.any(|number| {
        matches!(number.basis.rung, Rung::Fleet | Rung::BuildSystem)
            && prediction.confidence_in(number) < MIN_CONFIDENCE
    })
}

/// Replaces each number of low confidence by the operator's default. Memory sizes that follow from kills are not guesses, and stay.
pub(super) fn replace_guesses(
    prediction: &mut Prediction,
    similar: &SimilarAttempts<'_>,
    key: &Key,
    settings: &Settings,
) {
    let mut default = defaults(key, settings);
    if prediction.lower_bound.is_some() {
        default.memory_request.clone_from(&prediction.memory_request);
        default.memory_limit.clone_from(&prediction.memory_limit);
    } else {
        prediction.reason = reason(prediction, similar, key);
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

/// Names the attempts that do not decide, and says that the default is used.
fn reason(prediction: &Prediction, similar: &SimilarAttempts<'_>, key: &Key) -> String {
    let attempts = figures::counted(prediction.attempts.into(), "attempt");
    let scope = words::rung_scope(similar.main_rung());
    format!(
        "nothing is known about {} yet, so this is the configured default: the {attempts} that were looked at are of {scope}",
        key.describe()
    )
}
