//! Decides what to do for a build that comes near its memory limit. It only decides: the caller reads the build, and stops and continues
//! processes.
//!
//! | module | what it decides |
//! |---|---|
//! | `pause` | which compilers to pause, and when they go on |
//! | `units` | which processes may be paused at all |
//! | `hang` | whether a build hangs at its limit |

pub(crate) mod hang;
pub mod pause;
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
