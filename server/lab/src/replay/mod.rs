//! What each rule would have asked for, over recorded history.
//!
//! ```text
//! file -> tape (rows in order of time, 100 bytes each, and each key once)
//!      -> walk (ask, try until it fits, learn when the attempt has ended)   one policy at a time
//!      -> tally -> table or JSON
//! ```
//!
//! A build that needs more than it is given is lost with all that it held for its whole time, and tried again. Surplus is what was held
//! above the highest need, and all that lost attempts held, in GiB x h: what exact sizes would save. It is not the waste of statistics, which
//! is against the mean use: recorded history has the peak of every build, and the mean of some. A build that needs more than its request,
//! below its limit, holds what it needs. A policy sees what a real caller knows before the start, and nothing of an attempt before it has ended; only `oracle` knows the need.
//!
//! | name | rule |
//! |---|---|
//! | `plimsoll` | the request of this server's Predict, from the same code |
//! | `plimsoll-limit` | its limit: what it would be killed at |
//! | `plimsoll-pod` | both together: the request is held, the limit kills |
//! | `preset` | what the file says was asked for |
//! | `gantry`, `vpa`, `pod-scaler`, `krr`, `min-waste`, `max-seen` | the rules of others, see `peers` |
//! | `oracle` | exactly the need |

mod gain;
mod kind;
mod ours;
mod peers;
mod policy;
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
pub use policy::{FinishedBuild, MemorySizes, PolicyQuestion, SizingPolicy};
pub use report::{json, packages, text};
pub use stdio::serve as serve_stdio;
pub use tape::{ReplayTape, TapeRow};
pub use tune::{FailureTarget, TuneGoal, run};
