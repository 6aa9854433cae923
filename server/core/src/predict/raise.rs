//! Applies untrusted attempts: they may raise numbers within their own project, and lower none.
//!
//! Every number is computed twice, from the trusted attempts alone and from all attempts of the project, and the larger one is used. So a
//! false need, time, input or number of jobs from an untrusted attempt cannot make anything smaller. The number of build jobs, where
//! neither more nor fewer is safe, is that of the trusted attempts. Trusted attempts also bound the increase, so that one false claim does
//! not assign the largest machine to every build of the package.

use std::fmt::Write as _;

use plimsoll_proto::reasons::SizeBound;

use crate::domain::{Bytes, Prediction, Quantity};

/// Most that untrusted attempts may raise a number to, as a multiple of the trusted value. A change that needs more than this fails once,
/// and the verdict on that attempt gives the larger size.
pub(super) const MAX_RAISE: u64 = 4;

/// Raises each number of `trusted_prediction` to that of `all_prediction`; returns whether any was raised. If `is_package_known` (the
/// package has trusted attempts), the raised number is at most [`MAX_RAISE`] times that of `trusted_prediction`. Otherwise memory is
/// bounded by the `highest` need of trusted attempts in any project, or by [`MAX_RAISE`] times the default if that is more. Other numbers
/// are bounded only by the operator's caps.
pub(super) fn raise_by_untrusted(
    trusted_prediction: &mut Prediction,
    all_prediction: Prediction,
    is_package_known: bool,
    highest: Option<Bytes>,
) -> bool {
    let (mut raised, mut held) = (false, false);
    let bound = if is_package_known { SizeBound::TrustedTimes(MAX_RAISE) } else { SizeBound::TrustedNeed };
    // a fork's project has no trusted attempts of its own, so trusted attempts of all projects bound its memory
    let memory = match highest {
        _ if is_package_known => Some(0),
        highest => highest.map(|highest| highest.0),
    };
    let mut most = |own: &mut Quantity, all: Quantity, least: Option<u64>| {
        if all.value > own.value {
            let most = own.value.saturating_mul(MAX_RAISE).max(least.unwrap_or(u64::MAX));
            let is_too_much = all.value > most;
            // untrusted attempts raise a number, and never the confidence
            let confidence = own.basis.confidence.or_else(|| own.basis.is_default().then_some(0.0));
            *own = all;
            own.basis.confidence = confidence;
            if is_too_much {
                own.value = most;
                own.basis.bound.clone_from(&bound);
                // the share of builds that the bounded value covers is unknown
                own.basis.quantile = 0.0;
            }
            (raised, held) = (true, held || is_too_much);
        }
    };
    let other = is_package_known.then_some(0);
    most(&mut trusted_prediction.memory_request, all_prediction.memory_request, memory);
    most(&mut trusted_prediction.memory_limit, all_prediction.memory_limit, memory);
    most(&mut trusted_prediction.cpu_request, all_prediction.cpu_request, other);
    most(&mut trusted_prediction.cpu_limit, all_prediction.cpu_limit, other);
    most(&mut trusted_prediction.wall_p50, all_prediction.wall_p50, other);
    most(&mut trusted_prediction.wall_p95, all_prediction.wall_p95, other);
    if raised {
        trusted_prediction.reason.push_str("; untrusted attempts of this project raise it");
    }
    if held {
        let _fits = write!(trusted_prediction.reason, ", to at most {bound}");
    }
    raised
}
