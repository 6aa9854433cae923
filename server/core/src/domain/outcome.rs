//! How an attempt ended.

use plimsoll_proto::wire_enum;
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

// The position of a variant, from 1, is its number in the store: new ones go to the end.
wire_enum! {
    /// Result of an attempt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// Exit code 0.
        Succeeded => "succeeded",
        /// Any other exit status.
        Failed => "failed",
        /// The end was not seen.
        Lost => "lost",
        /// The end was seen, but the exit status is not known.
        Ended => "ended",
    }
}

impl Outcome {
    /// Whether it is unknown if the build passed. Others may still report it.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Lost | Self::Ended)
    }
}

// The position of a variant, from 1, is its number in the store: new ones go to the end.
wire_enum! {
    /// The level at which memory ran out when the kernel killed a process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OomOrigin {
        /// The limit of the build's own cgroup, or of one that the build created.
        OwnLimit => "own_limit",
        /// The limit of a cgroup above the build's, which may be shared.
        LimitAbove => "limit_above",
        /// No limit: the whole machine had no memory left.
        Host => "host",
    }
}
