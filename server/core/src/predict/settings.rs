//! What the operator decides: the answer for an unknown key, the price of a failure, and the walls around every size.

use plimsoll_proto::{figures, limits, reasons::SizeBound};
use serde::{Deserialize, Serialize};

use crate::domain::{Bytes, Cores, Millis};

/// What the operator decides about predictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Memory to request for a build of which nothing is known.
    pub memory_request: Bytes,
    /// Memory limit for a build of which nothing is known.
    pub memory_limit: Bytes,
    /// The two sizes above are a preset for the very build that is asked about. Then builds of other packages are not heard:
    /// the author of the preset knows more.
    pub preset: bool,
    /// CPU to request for a build of which nothing is known.
    pub cpu_request: Cores,
    /// CPU limit for a build of which nothing is known.
    pub cpu_limit: Cores,
    /// Parallel jobs when neither the caller nor the history names a number.
    pub build_jobs: u32,
    /// Wall time that half of the unknown builds need.
    pub wall_p50: Millis,
    /// Wall time that 95 % of the unknown builds need.
    pub wall_p95: Millis,
    /// What one build over its request costs, in GiB x h, whatever its size. Higher buys more safety. `None`: what an average
    /// build of the history holds, so that the price fits a fleet of small builds and one of large ones.
    pub failure_price: Option<f64>,
    /// Share of builds that may need more than their limit, before the margin.
    pub failure_ceiling: f64,
    /// A memory size goes down by at most this share of what was predicted for the newest attempt of the same key, and stays as it
    /// is if it would go down by less than 5 %. `None`: sizes follow at once.
    pub max_decrease: Option<f64>,
    /// No memory size goes below this.
    pub memory_floor: Bytes,
    /// No memory size goes above this: the largest place there is.
    pub memory_cap: Option<Bytes>,
    /// No CPU size goes below this.
    pub cpu_floor: Cores,
    /// No CPU size goes above this.
    pub cpu_cap: Option<Cores>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // 2 GiB is above the median of Spack's public CI (1.4 GiB); 4 GiB is what a small runner has for one job
            memory_request: Bytes(2 * Bytes::GIB.0),
            memory_limit: Bytes(4 * Bytes::GIB.0),
            preset: false,
            cpu_request: Cores(1.0),
            cpu_limit: Cores(2.0),
            build_jobs: 2,
            wall_p50: Millis(10 * 60 * 1000),
            wall_p95: Millis(60 * 60 * 1000),
            failure_price: None,
            failure_ceiling: 0.01,
            max_decrease: None,
            memory_floor: Bytes(limits::MEMORY_FLOOR_BYTES),
            memory_cap: None,
            cpu_floor: Cores(0.1),
            cpu_cap: None,
        }
    }
}

impl Settings {
    /// `size` between the floor and the cap, and which of them decided.
    pub(crate) fn bound_memory(&self, size: Bytes) -> (Bytes, SizeBound) {
        if let Some(cap) = self.memory_cap.filter(|cap| *cap < size) {
            return (cap, SizeBound::Cap(cap.to_string()));
        }
        if size < self.memory_floor {
            return (self.memory_floor, SizeBound::Floor(self.memory_floor.to_string()));
        }
        (size, SizeBound::None)
    }

    /// `size` between the floor and the cap, and which of them decided.
    pub(super) fn bound_cpu(&self, size: Cores) -> (Cores, SizeBound) {
        if let Some(cap) = self.cpu_cap.filter(|cap| cap.0 < size.0) {
            return (cap, SizeBound::Cap(figures::cores_named(cap.0)));
        }
        if size.0 < self.cpu_floor.0 {
            return (self.cpu_floor, SizeBound::Floor(figures::cores_named(self.cpu_floor.0)));
        }
        (size, SizeBound::None)
    }
}
