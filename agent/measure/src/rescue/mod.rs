//! Decides what to do for a build that comes near its memory limit. It only decides: the caller reads the build, stops and continues
//! processes, and raises limits.
//!
//! | module | what it decides |
//! |---|---|
//! | `pause` | which compilers to pause, and when they go on |
//! | `units` | which processes may be paused at all |
//! | `hang` | whether a build hangs at its limit |
//! | `raise` | when the limit of a build's own cgroup is raised, and to what |

pub(crate) mod hang;
pub mod pause;
pub(crate) mod raise;
mod units;

use std::time::Duration;

use tokio::time::Instant;

pub use units::{Unit, pausable_units};

/// What rescue may do for a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RescueSettings {
    /// Say once that processes would have been paused.
    pub watch: bool,
    /// End a build that hangs at its memory limit.
    pub end: bool,
    /// Pause compilers near the memory limit.
    pub pause: bool,
    /// Names of further programs that may be paused.
    pub programs: Vec<String>,
    /// Longest pause of one process.
    pub most: Duration,
    /// When the CI system ends the job, if that is known.
    pub ends_at: Option<Instant>,
}

impl RescueSettings {
    /// Whether a pause is at least reported.
    pub(crate) fn watches(&self) -> bool {
        self.watch || self.end || self.pause
    }
}
