//! The causes of failure, each declared once with all that is the same for every failure with it: names, words, rank and retries. A new
//! cause is a value of the wire's enumeration and, at the end, a row here. What is done about it is decided in `core/retry`.

use serde::{Deserialize, Serialize};

/// What is the same for every failure with one cause.
#[derive(Debug, Clone, Copy)]
pub struct CauseTraits {
    /// The cause in a list for people.
    pub words: &'static str,
    /// The cause as the start of a sentence, in two parts; "probably" goes between them.
    pub sentence: [&'static str; 2],
    /// Rank among the lines of one log: the lowest explains the others. `server/core/src/retry/evidence/join.rs` has the reasons.
    pub log_rank: u8,
    /// How many retries it allows.
    pub retries: RetryLimit,
    /// Wait before the first retry, and the longest wait before any, seconds. The waits are judgements: a node is replaced in seconds, a
    /// service that is down returns in minutes.
    pub wait_s: [u64; 2],
}

/// Which limit of the retry policy holds for a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryLimit {
    /// That of attempts whose node or slot was taken away, which do not count against the budget.
    Preempted,
    /// The budget of the build.
    Budget,
    /// That of failures without evidence.
    Unproven,
    /// No retry: whatever a retry changed, the failure would repeat.
    Zero,
}

macro_rules! causes {
    ($(
        $(#[$doc:meta])*
        $Cause:ident $name:literal: $words:literal, [$head:literal, $tail:literal], $rank:literal, $Limit:ident, $wait_s:expr;
    )+) => {
        $crate::wire_enum! {
            /// Why an attempt failed.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
            #[serde(rename_all = "snake_case")]
            pub enum Cause {
                $($(#[$doc])* $Cause => $name,)+
            }
        }

        impl Cause {
            /// What is the same for every failure with this cause.
            pub const fn traits(self) -> CauseTraits {
                let (words, sentence, log_rank, retries, wait_s) = match self {
                    $(Self::$Cause => ($words, [$head, $tail], $rank, RetryLimit::$Limit, $wait_s)),+
                };
                CauseTraits { words, sentence, log_rank, retries, wait_s }
            }
        }
    };
}

// Variant and name; words, sentence, rank in a log, retries, waits. The position of a row, from 1, is the number in the store: new rows go to
// the end.
causes! {
    /// The kernel killed a process of the build at a memory limit.
    Oom "oom": "out of memory", ["it ", "ran out of memory"], 0, Budget, [0, 0];
    /// The build ran at its memory limit and spent its time reclaiming memory.
    Starved "starved": "starved of memory", ["it ", "starved at its memory limit"], 1, Budget, [0, 0];
    /// The build exceeded its time limit.
    Timeout "timeout": "time-out", ["it ", "ran out of time"], 8, Budget, [0, 0];
    /// The build would fail again in the same way.
    Deterministic "deterministic": "the build itself fails", ["the build itself is ", "broken"], 11, Zero, [0, 0];
    /// A fault outside the build.
    Infra "infra": "infrastructure", ["something outside the build ", "failed"], 9, Budget, [30, 600];
    /// The node or the slot was taken away.
    Preempted "preempted": "preempted", ["it was ", "preempted"], 5, Preempted, [10, 300];
    /// A disk was full.
    DiskFull "disk_full": "disk full", ["a disk was ", "full"], 3, Budget, [0, 0];
    /// The job was ended on purpose.
    Canceled "canceled": "canceled", ["it was ", "canceled"], 13, Zero, [0, 0];
    /// A tool reached a memory limit of its own, below that of the build.
    ToolOom "tool_oom": "tool's own memory limit", ["a tool ", "reached a memory limit of its own"], 2, Zero, [0, 0];
    /// The ephemeral storage of the pod was used up.
    EphemeralStorage "ephemeral_storage": "pod's storage full", ["it ", "used up the storage of its pod"], 4, Budget, [0, 0];
    /// The node is gone or does not respond.
    NodeLost "node_lost": "node lost", ["its node was ", "lost"], 6, Preempted, [10, 300];
    /// The kubelet evicted the pod, because the node ran short of a resource.
    EvictedByNode "evicted_by_node": "evicted by node", ["its node ", "evicted it"], 7, Preempted, [10, 300];
    /// The build failed because others held something that it needed: a lock, or CPU time.
    Contention "contention": "contention", ["it ", "did not get what it needed in time"], 10, Budget, [60, 900];
    /// The same failure disappeared on an earlier retry.
    Flaky "flaky": "flaky", ["this failure ", "went away on a retry before"], 14, Budget, [0, 0];
    /// The CI system or the runner is misconfigured.
    Configuration "configuration": "configuration", ["the CI system or the runner is ", "misconfigured"], 12, Zero, [0, 0];
    /// No evidence explains the failure.
    Unknown "unknown": "unknown cause", ["", "the cause is not known"], 15, Unproven, [0, 0];
    /// Either a fault outside the build or the build itself: the log shows both, but not which of them ended the build.
    Undecided "undecided": "undecided", ["something outside the build ", "failed"], 9, Budget, [30, 600];
}

impl Cause {
    /// Whether the build needs more memory than was measured.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Oom | Self::Starved)
    }

    /// Whether the node or slot was taken away, so that the attempt does not count against the retry budget.
    pub const fn is_taken_away(self) -> bool {
        matches!(self.traits().retries, RetryLimit::Preempted)
    }

    /// Whether the failure would repeat, whatever change a retry makes.
    pub const fn is_final(self) -> bool {
        matches!(self.traits().retries, RetryLimit::Zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WireEnum as _, v1};

    #[test]
    fn a_cause_has_one_name_everywhere() {
        assert_eq!(v1::Cause::all().count(), Cause::ALL.len());
        for cause in Cause::ALL {
            let wire = cause.to_wire();
            assert_eq!((wire.word(), Cause::of_wire(wire)), (cause.as_str().to_owned(), Some(cause)));
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }
}
