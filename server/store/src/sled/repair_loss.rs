//! What a repair could not recover, as text.

use std::fmt;

use plimsoll_proto::figures::counted;

use super::raw_log::LogLoss;
use crate::CheckFinding;

/// Something that the new store lacks, or has only in an older version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairLoss {
    /// A part of the engine's log cannot be read.
    Log(LogLoss),
    /// A record that cannot be decoded.
    Record(CheckFinding),
    /// Commits after the last readable one are missing.
    Commits {
        /// Number of the last readable commit.
        found: u64,
        /// Number of the last commit that the marker or the witness records.
        known: u64,
    },
}

impl fmt::Display for RepairLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(LogLoss::Bytes { at, len, after_commit }) => write!(
                f,
                "{} of sled/db from byte {at} on cannot be read: what was written there after commit {after_commit} is lost, or as it was before",
                counted(*len, "byte")
            ),
            Self::Log(LogLoss::Keys { from, until }) => {
                let until = until.as_ref().map_or_else(|| "the end".to_owned(), ToString::to_string);
                write!(
                    f,
                    "the page with the keys from \"{from}\" to \"{until}\" is lost: its records are lost, or as they were before"
                )
            }
            Self::Log(LogLoss::Changes(count)) => {
                let changes = counted(*count, "change");
                write!(f, "{changes} of lost pages cannot be placed: the keys are not known")
            }
            Self::Record(flaw) => write!(f, "{}: {}", flaw.key, flaw.reason),
            Self::Commits { found: 0, known } => write!(
                f,
                "the store ends before the last of what restore or repair wrote, which was commit {known}: a part of it is lost"
            ),
            Self::Commits { found, known } => write!(
                f,
                "the last commit that can be read is {found}, and there was commit {known}: what was written after {found} is lost"
            ),
        }
    }
}
