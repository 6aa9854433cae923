//! What untrusted attempts change: they raise numbers within their own project, and lower none.
//!
//! Every number is worked out twice, from the trusted attempts alone and from all of the project's, and the larger one counts.
//! So nothing that an untrusted attempt claims (its need, its time, its input, its jobs) can make anything smaller. The build
//! jobs, where neither more nor fewer is safe, are those of the trusted attempts. What trusted attempts know bounds how far: who claims
//! to need the largest machine there is does not get it for every build of the package.

use std::fmt::Write as _;

use plimsoll_proto::reasons::SizeBound;

use crate::domain::{Bytes, Prediction, Quantity};

/// How many times what trusted attempts say untrusted ones may raise a number to, at most. A change that makes a package need more than
/// this is found by the verdict on its own failed attempt.
pub(super) const MOST: u64 = 4;

/// Puts in each number of `all` that is above its own. Says whether there was one. Where trusted attempts of the package
/// are `known`, they bound how far; else, for memory, the `highest` need that trusted attempts of any project have shown, unless that is
/// less than the same times what an unknown package gets. The rest is bounded by the operator's caps alone.
pub(super) fn raise(own: &mut Prediction, all: Prediction, known: bool, highest: Option<Bytes>) -> bool {
    let (mut raised, mut held) = (false, false);
    let bound = if known { SizeBound::TrustedTimes(MOST) } else { SizeBound::TrustedNeed };
    // a fork's project has no trusted attempts of its own
    let memory = match highest {
        _ if known => Some(0),
        highest => highest.map(|highest| highest.0),
    };
    let mut most = |own: &mut Quantity, all: Quantity, least: Option<u64>| {
        if all.value > own.value {
            let most = own.value.saturating_mul(MOST).max(least.unwrap_or(u64::MAX));
            let is_too_much = all.value > most;
            // untrusted attempts raise a number, and make nothing surer
            let confidence = own.basis.confidence.or_else(|| own.basis.is_default().then_some(0.0));
            *own = all;
            own.basis.confidence = confidence;
            if is_too_much {
                own.value = most;
                own.basis.bound.clone_from(&bound);
                // which share of builds that covers is not known
                own.basis.quantile = 0.0;
            }
            (raised, held) = (true, held || is_too_much);
        }
    };
    let other = known.then_some(0);
    most(&mut own.memory_request, all.memory_request, memory);
    most(&mut own.memory_limit, all.memory_limit, memory);
    most(&mut own.cpu_request, all.cpu_request, other);
    most(&mut own.cpu_limit, all.cpu_limit, other);
    most(&mut own.wall_p50, all.wall_p50, other);
    most(&mut own.wall_p95, all.wall_p95, other);
    if raised {
        own.reason.push_str("; untrusted attempts of this project raise it");
    }
    if held {
        let _fits = write!(own.reason, ", to at most {bound}");
    }
    raised
}
