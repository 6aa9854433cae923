//! The interface that all policies implement.

use plimsoll_core::domain::Key;

/// What a policy gets before an attempt starts.
#[derive(Debug, Clone)]
pub(super) struct PolicyQuestion {
    /// Key of the build.
    pub(super) key: Key,
    /// Number of the workload: equal for keys that differ only in the version and the hints, which other policies treat as one workload.
    pub(super) workload: u64,
    /// The memory request in the recorded history, bytes.
    pub(super) preset: Option<f64>,
    /// Start of the build, milliseconds since 1970; 0 if unknown.
    pub(super) start_ms: f64,
    /// The need of the build, for a policy that may know it; NaN for all others.
    pub(super) need: f64,
}

/// What a policy gets when an attempt has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedBuild {
    /// Number of the row in the file.
    pub(super) number: u64,
    /// Highest need, bytes; for a build that was stopped, its memory when it was stopped.
    pub(super) peak: f64,
    /// Mean need, bytes; 0 if unknown.
    pub(super) mean: f64,
    /// Wall time, milliseconds.
    pub(super) wall_ms: f64,
    /// CPU time, microseconds.
    pub(super) cpu_usec: u64,
    /// Whether the build was stopped for lack of memory, so that it needs more than `peak`.
    pub(super) stopped: bool,
    /// Whether the row is untrusted, so that it must not lower the size of another build.
    pub(super) untrusted: bool,
}

/// Memory of one try, bytes. For most policies the request and the limit are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MemorySizes {
    /// Memory that the node reserves for the build.
    pub(super) request: f64,
    /// Memory at which the build is stopped; never below the request.
    pub(super) limit: f64,
    /// What the policy promises, whatever limit is in force; `None` if it promises nothing.
    pub(super) promise: Option<Promise>,
}

/// What a policy predicts besides the size of a try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Promise {
    /// The limit, bytes.
    pub(super) limit: f64,
    /// The confidence that a build stays within the limit, 0 to 1; 0 for a configured default, which promises nothing.
    pub(super) confidence: f64,
    /// The median and the 95 % time, milliseconds; `None` for configured defaults.
    pub(super) times: Option<[f64; 2]>,
    /// The CPU request, cores.
    pub(super) cores: f64,
}

impl MemorySizes {
    /// Uses the same size as request and limit.
    pub(super) fn of(size: f64) -> Self {
        Self { request: size, limit: size, promise: None }
    }
}

/// A policy: a rule that chooses sizes, in bytes.
pub(super) trait SizingPolicy {
    /// The size for the first try.
    fn size(&mut self, ask: &PolicyQuestion) -> f64;

    /// Request and limit for the first try. By default both are [`Self::size`].
    fn sizes(&mut self, ask: &PolicyQuestion) -> MemorySizes {
        MemorySizes::of(self.size(ask))
    }

    /// The size for the next try, as request and limit, after `failed` bytes were too little. If it is not
    /// higher than `failed`, the caller doubles `failed` instead. By default it is doubled.
    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        failed * 2.0
    }

    /// Adds the measurements of an attempt that has ended.
    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild);
}
