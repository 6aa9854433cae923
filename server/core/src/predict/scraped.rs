//! Sizes that peaks from Prometheus do not lower.
//!
//! A scrape every 15 to 60 seconds misses peaks, so what Prometheus saw is at least what a build needs; a build that was read once may have
//! needed any amount. So such attempts make no prediction very sure, and what agents measured is worked out a second time, without them:
//!
//! | size | where agents measured attempts of the package | else |
//! |---|---|---|
//! | request, which is for packing | the larger of both counts | what Prometheus saw is good enough |
//! | limit, which kills | the larger of both counts | it counts as a default: no pod and no job gets it in the place of its own |
//!
//! A kill that the cluster reported was measured: the limit that held was too little, however low the scraped peak is.

use plimsoll_proto::reasons::{LEAST_CONFIDENCE, SizeBound};

use super::similar::SimilarAttempts;
use crate::domain::{Prediction, Quantity, Rung, RungObservation};

/// Most confidence in what Prometheus read several times in each build. A judgement: half, for peaks between two scrapes.
const MOST_SURE: f64 = 0.5;
/// The same for builds that it read once each: any moment of a build. A judgement: below what pods are sized from.
const MOST_SURE_OF_ONE: f64 = 0.2;

/// Holds `own` to `measured`, which is the same prediction without the attempts that were scraped. `pools`: what each is based on.
pub(super) fn hold(own: &mut Prediction, measured: Prediction, pools: [&SimilarAttempts<'_>; 2]) {
    let [all, of_agents] = pools;
    let most = most_sure(all).max(if of_agents.knows_package() { measured.confidence } else { 0.0 });
    let was = own.confidence;
    own.confidence = was.min(most);
    if of_agents.of_package().next().is_some() {
        let kept = raise(&mut own.memory_request, &measured.memory_request);
        raise(&mut own.cpu_request, &measured.cpu_request);
        if kept {
            own.reason.push_str("; peaks from Prometheus do not lower its request");
        }
    }
    raise(&mut own.cpu_limit, &measured.cpu_limit);
    if own.memory_limit != measured.memory_limit || was.to_bits() != measured.confidence.to_bits() {
        hold_limit(own, measured);
    }
    own.memory_limit.value = own.memory_limit.value.max(own.memory_request.value);
}

fn hold_limit(own: &mut Prediction, measured: Prediction) {
    let is_default = measured.memory_limit.basis.is_default() || measured.confidence < LEAST_CONFIDENCE;
    if is_default && own.lower_bound.is_some() {
        own.memory_limit.basis.confidence = Some(measured.confidence);
        return;
    }
    if measured.memory_limit.value > own.memory_limit.value {
        own.memory_limit = measured.memory_limit;
        own.reason.push_str("; peaks from Prometheus do not lower its limit");
    }
    let basis = &mut own.memory_limit.basis;
    if !is_default {
        // scraped peaks make no limit surer
        basis.confidence = Some(measured.confidence);
        return;
    }
    (basis.rung, basis.confidence) = (Rung::Default, None);
    if !basis.bound.is_cut() {
        basis.bound = SizeBound::Scraped;
    }
}

/// Takes the measured quantity where it is larger.
fn raise(own: &mut Quantity, measured: &Quantity) -> bool {
    let is_lower = own.value < measured.value;
    if is_lower {
        own.clone_from(measured);
    }
    is_lower
}

/// Most confidence by how each attempt was read, by their weights.
fn most_sure(pool: &SimilarAttempts<'_>) -> f64 {
    let sure = |fact: &RungObservation| match fact.scraped {
        false => 1.0,
        // from the first scrape to the last one
        true if fact.hours > 0.0 => MOST_SURE,
        true => MOST_SURE_OF_ONE,
    };
    let (all, known) = pool
        .used
        .iter()
        .fold((0.0, 0.0), |(all, known), used| (all + used.weight, known + used.weight * sure(used.fact)));
    if all > 0.0 { known / all } else { 1.0 }
}
