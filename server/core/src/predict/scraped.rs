//! Limits that peaks from Prometheus do not lower.
//!
//! A scrape every 15 to 60 seconds misses peaks, so what Prometheus saw is at least what a build needs. That is good enough for a
//! request, which is for packing. A limit kills: it is worked out a second time, from the attempts that were measured alone, and the
//! larger one counts. Where nothing else is known of it, it counts as a default: no pod and no job gets it in the place of its own. A kill
//! that the cluster reported was measured: the limit that held was too little, however low the scraped peak is.

use plimsoll_proto::reasons::{LEAST_CONFIDENCE, SizeBound};

use crate::domain::{Prediction, Rung};

/// Raises the limits of `own` to those of `measured`, which is the same prediction without the attempts that were scraped.
pub(super) fn hold_limits(own: &mut Prediction, measured: Prediction) {
    if measured.cpu_limit.value > own.cpu_limit.value {
        own.cpu_limit = measured.cpu_limit;
    }
    if own.memory_limit == measured.memory_limit && own.confidence.to_bits() == measured.confidence.to_bits()
    {
        return;
    }
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
