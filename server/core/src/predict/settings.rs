//! The operator's settings for predictions: the answer for an unknown key, the price of a failure, and the bounds of every size.

use plimsoll_proto::{figures, limits, reasons::SizeBound};
use serde::{Deserialize, Serialize};

use crate::domain::{Bytes, Cores, Millis};

/// The operator's settings for predictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Memory request for an unknown build.
    pub memory_request: Bytes,
    /// Memory limit for an unknown build.
    pub memory_limit: Bytes,
    /// The two sizes above are a preset for the requested build. Its author knows more than sizes of other packages show, so only the shares
    /// that they needed of their presets count.
    pub preset: bool,
    /// No build gets more than its preset, whatever others needed of theirs.
    pub preset_is_most: bool,
    /// CPU request for an unknown build.
    pub cpu_request: Cores,
    /// CPU limit for an unknown build.
    pub cpu_limit: Cores,
    /// Build jobs if neither the caller nor the history has a number.
    pub build_jobs: u32,
    /// Median wall time of unknown builds.
    pub wall_p50: Millis,
    /// 95th percentile of the wall time of unknown builds.
    pub wall_p95: Millis,
    /// Price of one build that exceeds its request, GiB x h, the same for all sizes: a higher price gives larger requests, also above a
    /// preset if presets were too small before. `None`: the memory time of an average build in the history, which fits small and large builds.
    pub failure_price: Option<f64>,
    /// Share of builds that may need more than their limit, before the margin.
    pub failure_ceiling: f64,
    /// Largest decrease of a memory size, as a share of the prediction for the newest attempt of the same key; decreases below 5 % are not
    /// made at all. `None`: unlimited.
    pub max_decrease: Option<f64>,
    /// Lowest memory size.
    pub memory_floor: Bytes,
    /// Highest memory size: that of the largest builder.
    pub memory_cap: Option<Bytes>,
    /// Lowest CPU size.
    pub cpu_floor: Cores,
    /// Highest CPU size.
    pub cpu_cap: Option<Cores>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // 2 GiB is above the median of Spack's public CI (1.4 GiB); 4 GiB is what a small runner has for one job
            memory_request: Bytes(2 * Bytes::GIB.0),
            memory_limit: Bytes(4 * Bytes::GIB.0),
            preset: false,
            preset_is_most: false,
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
    /// `size` within floor and cap, and which of the two changed it.
    pub(crate) fn bound_memory(&self, size: Bytes) -> (Bytes, SizeBound) {
        if let Some(cap) = self.memory_cap.filter(|cap| *cap < size) {
            return (cap, SizeBound::Cap(cap.to_string()));
        }
        if size < self.memory_floor {
            return (self.memory_floor, SizeBound::Floor(self.memory_floor.to_string()));
        }
        (size, SizeBound::None)
    }

    /// `size` within floor and cap, and which of the two changed it.
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
