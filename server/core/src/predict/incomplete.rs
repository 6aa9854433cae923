//! Keeps attempts from lowering sizes if their recorded need may be below the true peak.
//!
//! Three give only a lower bound of the need ([`IncompleteNeed`]): Prometheus misses peaks between two scrapes, a sum over processes misses
//! files in shared memory, and a build that rescue paused needs less at once than it would have needed. Such attempts limit the confidence,
//! and the prediction is computed a second time from attempts measured by cgroups alone:
//!
//! | size | if cgroups measured attempts of the package | else |
//! |---|---|---|
//! | request, used for packing | the larger of both | a lower bound is good enough |
//! | limit, at which builds are killed | the larger of both | it counts as a default: no pod or job gets it instead of its own |
//!
//! A kill reported by the cluster is a measurement: the limit was too small, however low the recorded peak is.

use std::fmt::Write as _;

use plimsoll_proto::{
    measured::IncompleteNeed,
    reasons::{MIN_CONFIDENCE, SizeBound},
};

use super::{guess, similar::SimilarAttempts};
use crate::domain::{Prediction, Quantity, Rung, RungObservation};

/// Highest confidence if each build's need was read several times, by judgement: peaks between scrapes and memory outside the processes are
/// missed.
pub(super) const HIGHEST_CONFIDENCE: f64 = 0.9;

/// Raises `own` to `measured`, the same prediction without attempts with an incomplete need. `pools`: the attempts that each prediction
/// was computed from.
pub(super) fn raise_to_measured(
    own: &mut Prediction,
    measured: Prediction,
    pools: [&SimilarAttempts<'_>; 2],
) {
    let [all, of_cgroups] = pools;
    let Some(source) = heaviest_incomplete_need(all) else {
        // both predictions rest on the same attempts, and differ only by the price of a failure
        if of_cgroups.of_package().next().is_some() {
            raise_quantity(&mut own.memory_request, &measured.memory_request);
        }
        raise_quantity(&mut own.memory_limit, &measured.memory_limit);
        own.memory_limit.value = own.memory_limit.value.max(own.memory_request.value);
        return;
    };
    let most =
        highest_confidence(all).max(if of_cgroups.knows_package() { measured.confidence } else { 0.0 });
    let was = own.confidence;
    own.confidence = was.min(most);
    if most < was {
        own.unsure_because = format!("{} may be too low", source.name());
    }
    if of_cgroups.of_package().next().is_some() {
        let kept = raise_quantity(&mut own.memory_request, &measured.memory_request);
        raise_quantity(&mut own.cpu_request, &measured.cpu_request);
        if kept {
            let _written = write!(own.reason, "; {} do not lower its request", source.name());
        }
    }
    raise_quantity(&mut own.cpu_limit, &measured.cpu_limit);
    if own.memory_limit != measured.memory_limit || was.to_bits() != measured.confidence.to_bits() {
        raise_limit(own, measured, source);
    }
    own.memory_limit.value = own.memory_limit.value.max(own.memory_request.value);
}

fn raise_limit(own: &mut Prediction, measured: Prediction, source: IncompleteNeed) {
    let is_default = measured.memory_limit.basis.is_default() || measured.confidence < MIN_CONFIDENCE;
    if is_default && own.lower_bound.is_some() {
        // a size proven by kills is larger than a default or a guess from other packages, but must not replace what attempts of this
        // package show
        if !measured.memory_limit.basis.is_default() && !guess::is_guess(&measured) {
            raise_quantity(&mut own.memory_limit, &measured.memory_limit);
        }
        own.memory_limit.basis.confidence = Some(measured.confidence);
        return;
    }
    if measured.memory_limit.value > own.memory_limit.value {
        own.memory_limit = measured.memory_limit;
        let _written = write!(own.reason, "; {} do not lower its limit", source.name());
    }
    let basis = &mut own.memory_limit.basis;
    if !is_default {
        // attempts with incomplete needs do not raise the confidence in a limit
        basis.confidence = Some(measured.confidence);
        return;
    }
    (basis.rung, basis.confidence) = (Rung::Default, None);
    if !basis.bound.is_cut() {
        basis.bound = SizeBound::incomplete(source);
    }
}

/// Replaces `own` by the measured quantity if that is larger; returns whether it did.
fn raise_quantity(own: &mut Quantity, measured: &Quantity) -> bool {
    let is_lower = own.value < measured.value;
    if is_lower {
        own.clone_from(measured);
    }
    is_lower
}

/// Why most of the similar attempts' needs are only lower bounds, by the attempts' weight. The prediction's reason names it. `None` if all
/// needs were measured completely.
fn heaviest_incomplete_need(similar: &SimilarAttempts<'_>) -> Option<IncompleteNeed> {
    let weight = |source: &IncompleteNeed| -> f64 {
        let of_it = similar.attempts.iter().filter(|used| used.observation.incomplete == Some(*source));
        of_it.map(|used| used.weight).sum()
    };
    let found = |source: &IncompleteNeed| {
        similar.attempts.iter().any(|used| used.observation.incomplete == Some(*source))
    };
    IncompleteNeed::ALL.into_iter().filter(found).max_by(|a, b| weight(a).total_cmp(&weight(b)))
}

/// Highest confidence that the attempts allow: the weighted mean over how each attempt was measured.
fn highest_confidence(similar: &SimilarAttempts<'_>) -> f64 {
    let weight = |counts: fn(&RungObservation) -> bool| -> f64 {
        similar.attempts.iter().filter(|used| counts(used.observation)).map(|used| used.weight).sum()
    };
    let incomplete = weight(|observation| observation.incomplete.is_some());
    1.0 - (1.0 - HIGHEST_CONFIDENCE) * incomplete / weight(|_| true).max(f64::MIN_POSITIVE)
}

impl SimilarAttempts<'_> {
    /// Number of attempts with a need that is a sum over processes.
    pub(super) fn by_processes(&self) -> u32 {
        let of_it = self
            .attempts
            .iter()
            .filter(|used| used.observation.incomplete == Some(IncompleteNeed::Processes));
        u32::try_from(of_it.count()).unwrap_or(u32::MAX)
    }
}
