//! The one interface of all policies.

use plimsoll_core::domain::{Key, Millis};

/// What is known before an attempt starts.
#[derive(Debug, Clone)]
pub struct PolicyQuestion {
    /// What is built.
    pub key: Key,
    /// Number of the workload: equal for keys that differ only in the version and the hints, which other policies treat as one workload.
    pub(crate) workload: u64,
    /// What was asked for when it was recorded, bytes.
    pub preset: Option<f64>,
    /// Start, milliseconds since 1970, 0 if no time is known.
    pub start_ms: f64,
    /// The need, for a policy that foresees; NaN for all others.
    pub need: f64,
}

/// What is known when an attempt has ended.
#[derive(Debug, Clone, Copy)]
pub struct FinishedBuild {
    /// Number of the row in the file.
    pub number: u64,
    /// Highest need, bytes; if it was stopped, what it had.
    pub peak: f64,
    /// Mean need, bytes; 0 if it is not known.
    pub mean: f64,
    /// Wall time, milliseconds.
    pub wall_ms: f64,
    /// CPU time, microseconds.
    pub cpu_usec: u64,
    /// Whether memory stopped it: the need is more than its peak.
    pub stopped: bool,
    /// Whether the row is untrusted: it may not lower a size of another build.
    pub untrusted: bool,
}

/// Memory of one try, bytes. For most policies both are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemorySizes {
    /// What is kept free for it on its node.
    pub request: f64,
    /// What it is stopped at; never below the request.
    pub limit: f64,
}

impl MemorySizes {
    /// The same size for request and limit.
    pub fn of(size: f64) -> Self {
        Self { request: size, limit: size }
    }
}

/// The answer of a policy before the first try of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyPlan {
    /// Memory sizes that the policy chooses.
    pub memory: MemorySizes,
    /// Thousandths of a core to ask for; `None` if the policy knows nothing of CPU.
    pub milli: Option<u64>,
    /// Wall time that 95 % of the attempts need; `None` if it knows nothing of time.
    pub wall_p95: Option<Millis>,
}

/// A rule that chooses sizes, in bytes.
pub trait SizingPolicy {
    /// The size for the first try.
    fn size(&mut self, ask: &PolicyQuestion) -> f64;

    /// Request and limit for the first try.
    fn sizes(&mut self, ask: &PolicyQuestion) -> MemorySizes {
        MemorySizes::of(self.size(ask))
    }

    /// Everything for the first try.
    fn plan(&mut self, ask: &PolicyQuestion) -> PolicyPlan {
        PolicyPlan { memory: self.sizes(ask), milli: None, wall_p95: None }
    }

    /// The size for the next try, request and limit alike, after `failed` was too little. What is not above `failed` is doubled by the caller.
    fn size_after_failure(&mut self, ask: &PolicyQuestion, failed: f64) -> f64;

    /// An attempt has ended.
    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild);
}
