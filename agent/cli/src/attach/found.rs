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
    pub(super) how_followed: String,
    /// Why more exact measurements were not possible.
    pub(super) failed_ways: Vec<String>,
}

/// Why the agent gives up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AttachRefusal {
    pub(super) status: u8,
    pub(super) problem: String,
}

impl AttachRefusal {
    /// A refusal because nothing can be measured.
    pub(super) fn nothing_to_measure(why: impl Display) -> Self {
        Self { status: STATUS_NOTHING, problem: format!("nothing was measured: {why}") }
    }

    pub(super) fn usage_error(problem: String) -> Self {
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
    pub(super) empty_group: Option<EarlierCounters>,
}

impl From<String> for MissingBuild {
    fn from(why: String) -> Self {
        Self { why, empty_group: None }
    }
}

/// Result of one search: a build, a reason to search again, or a reason to give up.
pub(super) type SearchResult = Result<Result<FoundBuild, MissingBuild>, AttachRefusal>;
