//! What untrusted attempts change: they raise numbers within their own project, and lower none.
//!
//! Every number is worked out twice, from the trusted attempts alone and from all of the project's, and the larger one counts.
//! So nothing that an untrusted attempt claims (its need, its time, its input, its jobs) can make anything smaller. The build
//! jobs, where neither more nor fewer is safe, are those of the trusted attempts.

use crate::domain::{Prediction, Quantity};

/// Puts in each number of `all` that is above its own. Says whether there was one.
pub(super) fn raise(own: &mut Prediction, all: Prediction) -> bool {
    let mut raised = false;
    let mut most = |own: &mut Quantity, all: Quantity| {
        if all.value > own.value {
            *own = all;
            raised = true;
        }
    };
    most(&mut own.memory_request, all.memory_request);
    most(&mut own.memory_limit, all.memory_limit);
    most(&mut own.cpu_request, all.cpu_request);
    most(&mut own.cpu_limit, all.cpu_limit);
    most(&mut own.wall_p50, all.wall_p50);
    most(&mut own.wall_p95, all.wall_p95);
    if raised {
        own.reason.push_str("; untrusted attempts of this project raise it");
    }
    raised
}
