//! How an attempt ended, and why.

use plimsoll_proto::named_enum;
use serde::{Deserialize, Serialize};

/// How the command of an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command ended with this code.
    Code(i32),
    /// This signal ended the command.
    Signal(i32),
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Any other exit status.
    Failed,
    /// The end was not seen.
    Lost,
    /// The end was seen, but the exit status is not known.
    Ended,
}

impl Outcome {
    /// Whether it is unknown if the build passed. Others may still report it.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Lost | Self::Ended)
    }
}

/// The level at which memory ran out when the kernel killed a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomOrigin {
    /// The limit of the build's own cgroup, or of one that the build created.
    OwnLimit,
    /// The limit of a cgroup above the build's, which may be shared.
    LimitAbove,
    /// No limit: the whole machine had no memory left.
    Host,
}

named_enum! {
    /// Why an attempt failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Cause {
        /// The kernel killed a process of the build at a memory limit.
        Oom => "oom",
        /// The build ran at its memory limit and spent its time reclaiming memory.
        Starved => "starved",
        /// The build exceeded its time limit.
        Timeout => "timeout",
        /// The build would fail again in the same way.
        Deterministic => "deterministic",
        /// A fault outside the build.
        Infra => "infra",
        /// The node or the slot was taken away.
        Preempted => "preempted",
        /// A disk was full.
        DiskFull => "disk_full",
        /// The job was ended on purpose.
        Canceled => "canceled",
        /// A tool reached a memory limit of its own, below that of the build.
        ToolOom => "tool_oom",
        /// The ephemeral storage of the pod was used up.
        EphemeralStorage => "ephemeral_storage",
        /// The node is gone or does not respond.
        NodeLost => "node_lost",
        /// The kubelet evicted the pod, because the node ran short of a resource.
        EvictedByNode => "evicted_by_node",
        /// The build failed because others held something that it needed: a lock, or CPU time.
        Contention => "contention",
        /// The same failure disappeared on an earlier retry.
        Flaky => "flaky",
        /// The CI system or the runner is misconfigured.
        Configuration => "configuration",
        /// No evidence explains the failure.
        Unknown => "unknown",
        /// Either a fault outside the build or the build itself: the log shows both, but not which of them ended the build.
        Undecided => "undecided",
    }
}

impl Cause {
    /// Whether the build needs more memory than was measured.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Oom | Self::Starved)
    }

    /// Whether the node or slot was taken away, so that the attempt does not count against the retry budget.
    pub fn is_taken_away(self) -> bool {
        matches!(self, Self::Preempted | Self::NodeLost | Self::EvictedByNode)
    }

    /// Whether the failure would repeat, whatever change a retry makes.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Deterministic | Self::Configuration | Self::ToolOom | Self::Canceled)
    }
}
