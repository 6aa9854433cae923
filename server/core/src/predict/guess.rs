//! A guess is not advice: where less than [`LEAST_CONFIDENCE`] is known, an answer has what the operator set for a build of which nothing is
//! known, and says that. No memory size is below what attempts of the package have shown to be needed.

use plimsoll_proto::{
    figures,
    reasons::{LEAST_CONFIDENCE, SizeBound},
};

use super::{Settings, defaults, memory, similar::SimilarAttempts, words};
use crate::domain::{Key, LowerBound, Prediction, Quantity, Rung};

/// Whether its memory is a share of builds that are too little known to size by.
pub(super) fn is_guess(prediction: &Prediction) -> bool {
    is_of_others(prediction) || is_unsure(prediction, |size| size.basis.quantile > 0.0)
}

/// Whether that is so because those builds are of other packages: they never decide alone.
pub(super) fn is_of_others(prediction: &Prediction) -> bool {
    is_unsure(prediction, |size| matches!(size.basis.rung, Rung::Fleet | Rung::BuildSystem))
}

fn is_unsure(prediction: &Prediction, is_so: impl Fn(&Quantity) -> bool) -> bool {
    let mut sizes = [&prediction.memory_request, &prediction.memory_limit].into_iter();
    prediction.confidence < LEAST_CONFIDENCE && sizes.any(is_so)
}

/// The defaults in the place of all numbers of a guess that are not known by themselves.
pub(super) fn replace(
    prediction: &mut Prediction,
    pool: &SimilarAttempts<'_>,
    key: &Key,
    settings: &Settings,
) {
    let least = memory::least_sizes(pool, settings);
    let mut default =
        Prediction { memory_request: least.request, memory_limit: least.limit, ..defaults(key, settings) };
    prediction.reason = reason(prediction, pool, key, &default.memory_limit);
    for quantity in default.quantities_mut() {
        if quantity.basis.bound == SizeBound::Default {
            // so many attempts say too little about it
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

/// A number that is known and one that is the default need not fit each other.
fn in_order(prediction: &mut Prediction) {
    let Prediction { cpu_request, cpu_limit, wall_p50, wall_p95, .. } = prediction;
    for (lower, upper) in [(cpu_request, cpu_limit), (wall_p50, wall_p95)] {
        if upper.basis.is_default() {
            upper.value = upper.value.max(lower.value);
        }
        lower.value = lower.value.min(upper.value);
    }
}

/// What is too little, and what is put in its place: `limit`.
fn reason(prediction: &Prediction, pool: &SimilarAttempts<'_>, key: &Key, limit: &Quantity) -> String {
    let is_default = limit.basis.bound == SizeBound::Default;
    if let Some(bound) = &prediction.lower_bound {
        return above_kills(bound, is_default);
    }
    let attempts = figures::counted(prediction.attempts.into(), "attempt");
    let known = if pool.knows_package() { "too little" } else { "nothing" };
    let (scope, sure) = (words::scope(pool.main_rung()), figures::percent(prediction.confidence));
    let but = if is_default { "" } else { ", but no less than attempts of the package have needed" };
    format!(
        "{known} is known about {} yet, so this is the configured default{but}: {attempts}, mostly of {scope}, would be only {sure} sure",
        key.describe()
    )
}

fn above_kills(bound: &LowerBound, is_default: bool) -> String {
    let LowerBound { above, attempts, least, .. } = bound;
    let stopped = match attempts {
        1 => format!("memory stopped the only known attempt of this package at {above}"),
        many => format!("memory stopped all {many} known attempts of this package, at up to {above}"),
    };
    let end = if is_default { words::SIZES_ARE_DEFAULT } else { words::REST_IS_DEFAULT };
    format!("{stopped}, so the next one should have at least {least}{end}")
}
