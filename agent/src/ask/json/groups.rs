//! JSON of groups of need.

use plimsoll_proto::v1::{Distinction, NeedGroup, NeedGroups};
use serde::Serialize;

/// Groups of need among attempts that are taken for one build.
#[derive(Debug, Serialize)]
pub(in crate::ask) struct NeedGroupsJson {
    /// The least need first.
    groups: Vec<NeedGroupJson>,
    /// `null` if nothing that is recorded tells them apart.
    told_apart_by: Option<DistinctionJson>,
    /// Fields of a key that none of the attempts has.
    unrecorded: Vec<String>,
    reason: String,
}

/// Attempts that need about the same.
#[derive(Debug, Serialize)]
struct NeedGroupJson {
    attempts: u32,
    /// 0 to 1.
    share: f64,
    need_least_bytes: u64,
    need_median_bytes: u64,
    need_most_bytes: u64,
    within_request: bool,
    within_limit: bool,
}

/// A field whose values go with the groups.
#[derive(Debug, Serialize)]
struct DistinctionJson {
    field: String,
    /// For each group the values that stand for it.
    values: Vec<Vec<String>>,
    /// 0 to 1.
    accuracy: f64,
    /// Place of the group, from 0, of the key that was asked about; `null` if its value is of none.
    asked_group: Option<u32>,
}

impl From<&NeedGroups> for NeedGroupsJson {
    fn from(groups: &NeedGroups) -> Self {
        let group = |group: &NeedGroup| NeedGroupJson {
            attempts: group.attempts,
            share: group.share,
            need_least_bytes: group.need_least_bytes,
            need_median_bytes: group.need_median_bytes,
            need_most_bytes: group.need_most_bytes,
            within_request: group.within_request,
            within_limit: group.within_limit,
        };
        let told_apart_by = |by: &Distinction| DistinctionJson {
            field: by.field.clone(),
            values: by.values.iter().map(|values| values.values.clone()).collect(),
            accuracy: by.accuracy,
            asked_group: by.asked_group,
        };
        Self {
            groups: groups.groups.iter().map(group).collect(),
            told_apart_by: groups.told_apart_by.as_ref().map(told_apart_by),
            unrecorded: groups.unrecorded.clone(),
            reason: groups.reason.clone(),
        }
    }
}
