//! Result of a search: the build and how to measure it, nothing yet, or a reason to give up.

use std::fmt::Display;

use plimsoll_measure::{cgroup::Cgroups, meter::Meter, reading::Reading};

use super::{STATUS_NOTHING, STATUS_USAGE, process::Process};

/// A build that was found, with the meter for it.
#[derive(Debug)]
pub(super) struct FoundBuild {
    pub(super) meter: Meter,
    pub(super) groups: Option<Cgroups>,
    /// The build's first process, if the agent can see it.
    pub(super) main: Option<Process>,
    /// Whether the counters cover only this build, and all of it.
    pub(super) since_birth: bool,
    /// Counters of the group before the build ran in it, if the agent has seen the group empty.
    pub(super) earlier: Option<EarlierCounters>,
    /// What the agent follows and how it measures that, in words.
    pub(super) way: String,
    /// Why more exact measurements were not possible.
    pub(super) worse: Vec<String>,
}

/// Why the agent gives up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u8,
    pub(super) problem: String,
}

impl Refusal {
    /// A refusal because nothing can be measured.
    pub(super) fn nothing(why: impl Display) -> Self {
        Self { status: STATUS_NOTHING, problem: format!("nothing was measured: {why}") }
    }

    pub(super) fn usage(problem: String) -> Self {
        Self { status: STATUS_USAGE, problem }
    }
}

/// Counters of a group from before the build ran in it, and the identity of that group.
#[derive(Debug)]
pub(super) struct EarlierCounters {
    pub(super) reading: Reading,
    pub(super) group: Option<u64>,
}

/// Why the build cannot be followed yet.
#[derive(Debug)]
pub(super) struct MissingBuild {
    pub(super) why: String,
    /// Counters of the build's group, if the group exists and is empty.
    pub(super) empty: Option<EarlierCounters>,
}

impl From<String> for MissingBuild {
    fn from(why: String) -> Self {
        Self { why, empty: None }
    }
}

/// Result of one search: a build, a reason to search again, or a reason to give up.
pub(super) type SearchResult = Result<Result<FoundBuild, MissingBuild>, Refusal>;
