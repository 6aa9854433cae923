//! Result of a search: the build and how to measure it, nothing yet, or a reason to give up.

use std::fmt::Display;

use plimsoll_measure::{cgroup::Cgroups, meter::Meter, reading::Reading};

use super::{STATUS_NOTHING, STATUS_USAGE, process::Process};

/// A found build, with its meter.
#[derive(Debug)]
pub(super) struct FoundBuild {
    pub(super) meter: Meter,
    pub(super) groups: Option<Cgroups>,
    /// The process that the build began with, if it can be seen.
    pub(super) main: Option<Process>,
    /// Whether the counters include only this build, from its start.
    pub(super) since_birth: bool,
    /// Counters of what ran in the group before.
    pub(super) earlier: Option<EarlierCounters>,
    /// Description of what is followed, and how.
    pub(super) way: String,
    /// Why better ways were not possible.
    pub(super) worse: Vec<String>,
}

/// Why nothing can be followed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u8,
    pub(super) problem: String,
}

impl Refusal {
    /// There is nothing to measure.
    pub(super) fn nothing(why: impl Display) -> Self {
        Self { status: STATUS_NOTHING, problem: format!("nothing was measured: {why}") }
    }

    pub(super) fn usage(problem: String) -> Self {
        Self { status: STATUS_USAGE, problem }
    }
}

/// The counters of a group before the build was in it, and which group that was.
#[derive(Debug)]
pub(super) struct EarlierCounters {
    pub(super) reading: Reading,
    pub(super) group: Option<u64>,
}

/// Why nothing can be followed yet.
#[derive(Debug)]
pub(super) struct MissingBuild {
    pub(super) why: String,
    /// The group exists, and nothing runs in it.
    pub(super) empty: Option<EarlierCounters>,
}

impl From<String> for MissingBuild {
    fn from(why: String) -> Self {
        Self { why, empty: None }
    }
}

/// Result of one search.
pub(super) type SearchResult = Result<Result<FoundBuild, MissingBuild>, Refusal>;
