//! Replays recorded history: which sizes each rule would have requested, and what they would have cost.
//!
//! ```text
//! file -> tape (rows in order of time, 100 bytes each, and each key once)
//!      -> walk (request a size, retry until it is enough, learn when the attempt has ended)   one policy at a time
//!      -> tally -> table or JSON
//! ```
//!
//! A build that needs more memory than its limit is lost: all that it held for its whole time is wasted, and it is tried again.
//! Surplus is what was held above the highest need, plus all that lost attempts held, in GiB x h: what exact sizes would save. The
//! waste in the server's statistics is another number: it compares with the mean use, which recorded history has only for some
//! builds. A build that needs more than its request, but less than its limit, holds what it needs. A policy gets what a real caller
//! knows before the start, and an attempt's measurements only after the attempt has ended; only `oracle` knows the need.
//!
//! | name | rule |
//! |---|---|
//! | `plimsoll` | the request of this server's Predict, from the same code |
//! | `plimsoll-limit` | the limit of this server's Predict, at which a build would be killed |
//! | `plimsoll-pod` | both together, as in a pod: the request is reserved, and a build is killed at the limit |
//! | `preset` | the memory request that the file has for the build |
//! | `gantry`, `vpa`, `pod-scaler`, `krr`, `min-waste`, `max-seen` | the rules of other programs, see `peers` |
//! | `oracle` | exactly the need |

mod gain;
mod kind;
mod ours;
mod peers;
mod policy;
mod reliability;
mod report;
mod stdio;
mod tally;
mod tape;
#[cfg(test)]
mod tests;
mod tune;
mod walk;

pub use gain::{GainThreshold, threshold as gain_threshold};
pub use kind::PolicyKind;
pub use report::{json, packages_table, text};
pub use stdio::serve as serve_stdio;
pub use tape::ReplayTape;
pub use tune::{FailureTarget, TuneGoal, run};
