//! How an attempt ended, and why.

use serde::{Deserialize, Serialize};

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Any other end that was seen.
    Failed,
    /// The end was not seen.
    Lost,
}

/// Whose limit it was that made the kernel kill a process for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomOrigin {
    /// The limit of the build's own group, or of a group that the build made.
    OwnLimit,
    /// The limit of a group above the build's, which others may share.
    LimitAbove,
    /// No limit: the whole machine had no memory left.
    Host,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The kernel killed a process of the build at a memory limit.
    Oom,
    /// It ran at its memory limit and reclaimed instead of building.
    Starved,
    /// Its time was over.
    Timeout,
    /// It would fail again in the same way.
    Deterministic,
    /// Trouble outside the build.
    Infra,
    /// The node or the place was taken away.
    Preempted,
    /// A disk was full.
    DiskFull,
    /// Ended on purpose.
    Canceled,
    /// A tool reached a limit of its own for memory, below that of the build.
    ToolOom,
    /// The storage of its pod was used up.
    EphemeralStorage,
    /// The node is gone or does not answer.
    NodeLost,
    /// The node threw it out because something was short on the node.
    EvictedByNode,
    /// It lost the race for something that others held: a lock, CPU time.
    Contention,
    /// The same failure went away on a retry before.
    Flaky,
    /// The CI system or the runner is set up in a way that cannot work.
    Configuration,
    /// Nothing known explains it.
    Unknown,
    /// Trouble outside the build, or the build itself: the log names both, and not which of them ended it.
    Undecided,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 17] = [
        Self::Oom,
        Self::Starved,
        Self::Timeout,
        Self::Deterministic,
        Self::Infra,
        Self::Preempted,
        Self::DiskFull,
        Self::Canceled,
        Self::ToolOom,
        Self::EphemeralStorage,
        Self::NodeLost,
        Self::EvictedByNode,
        Self::Contention,
        Self::Flaky,
        Self::Configuration,
        Self::Unknown,
        Self::Undecided,
    ];

    /// The word for people, metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Starved => "starved",
            Self::Timeout => "timeout",
            Self::Deterministic => "deterministic",
            Self::Infra => "infra",
            Self::Preempted => "preempted",
            Self::DiskFull => "disk_full",
            Self::Canceled => "canceled",
            Self::ToolOom => "tool_oom",
            Self::EphemeralStorage => "ephemeral_storage",
            Self::NodeLost => "node_lost",
            Self::EvictedByNode => "evicted_by_node",
            Self::Contention => "contention",
            Self::Flaky => "flaky",
            Self::Configuration => "configuration",
            Self::Unknown => "unknown",
            Self::Undecided => "undecided",
        }
    }

    /// The memory seen is less than what the build needs.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Oom | Self::Starved)
    }

    /// The place was taken away: the attempt was never really made.
    pub fn is_taken_away(self) -> bool {
        matches!(self, Self::Preempted | Self::NodeLost | Self::EvictedByNode)
    }

    /// It would fail again in the same way: nothing that a retry changes is in its way.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Deterministic | Self::Configuration | Self::ToolOom | Self::Canceled)
    }
}
