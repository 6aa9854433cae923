//! What a search for a build ends with: the build and how it is measured, nothing yet, or a reason to give up.

use std::fmt::Display;

use plimsoll_measure::{cgroup::Cgroups, meter::Meter, reading::Reading};

use super::{STATUS_NOTHING, STATUS_USAGE, process::Process};

/// A build that was found, and how it is measured.
#[derive(Debug)]
pub(super) struct FoundBuild {
    pub(super) meter: Meter,
    pub(super) groups: Option<Cgroups>,
    /// The process that the build began with, if it can be seen.
    pub(super) main: Option<Process>,
    /// The counters are those of this build alone, since it began.
    pub(super) since_birth: bool,
    /// What others did in the group before.
    pub(super) earlier: Option<EarlierCounters>,
    /// What is followed, through what.
    pub(super) way: String,
    /// Why better ways were not taken.
    pub(super) worse: Vec<String>,
}

/// Why nothing is followed.
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

/// Why there is nothing to follow yet.
#[derive(Debug)]
pub(super) struct MissingBuild {
    pub(super) why: String,
    /// There is a group, and nothing runs in it.
    pub(super) empty: Option<EarlierCounters>,
}

impl From<String> for MissingBuild {
    fn from(why: String) -> Self {
        Self { why, empty: None }
    }
}

/// What one look has shown.
pub(super) type SearchResult = Result<Result<FoundBuild, MissingBuild>, Refusal>;
