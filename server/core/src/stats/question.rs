//! Queries: which attempts are counted, and how they are grouped.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use plimsoll_proto::v1::GroupBy;

use crate::domain::{AttemptBrief, AttemptId, Cause, Key, Outcome};

/// Which attempts are counted. An empty text and `None` match all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The project, as in a key.
    pub project: String,
    /// The name of a group of builds that are made together, as in a key.
    pub stack: String,
    /// The package, as in a key.
    pub package: String,
    /// The version, as in a key.
    pub version: String,
    /// The compiler, as in a key.
    pub compiler: String,
    /// The architecture, as in a key.
    pub arch: String,
    /// Pool in which the attempt ran.
    pub pool: String,
    /// Class of the branch or tag.
    pub ref_class: String,
    /// The owner, as in a key.
    pub owner: String,
    /// Only attempts that ended at or after this time.
    pub from_unix_ms: Option<u64>,
    /// Only attempts that ended before this time.
    pub to_unix_ms: Option<u64>,
    /// How the attempt ended.
    pub outcome: Option<Outcome>,
    /// Why the attempt failed.
    pub cause: Option<Cause>,
    /// Labels that the attempt must have, with their values.
    pub labels: BTreeMap<String, String>,
    /// Signature of a failure; `known_by` has its attempts.
    pub signature: String,
    /// The only attempts that match; `None` for all.
    pub known_by: Option<Arc<HashSet<AttemptId>>>,
}

impl Filter {
    /// Whether the fields of this key match.
    pub(super) fn takes_key(&self, key: &Key) -> bool {
        let same = |asked: &str, is: &str| asked.is_empty() || asked == is;
        same(&self.project, &key.project)
            && same(&self.stack, &key.stack)
            && same(&self.package, &key.package)
            && same(&self.version, &key.version)
            && same(&self.compiler, &key.compiler)
            && same(&self.arch, &key.arch)
    }

    /// Whether a finished attempt matches by the fields in memory: time, key and cause. Pool, owner, class of ref, labels and outcome are
    /// ignored.
    pub fn takes(&self, attempt: &AttemptBrief) -> bool {
        let is_cause = self.cause.is_none_or(|cause| attempt.cause == Some(cause));
        is_cause
            && self.takes_key(&attempt.key)
            && self.takes_time(attempt.ended_unix_ms())
            && self.takes_id(&attempt.attempt)
    }

    /// Whether the attempt is one of those with the filter's signature.
    pub(super) fn takes_id(&self, attempt: &AttemptId) -> bool {
        self.known_by.as_ref().is_none_or(|known| known.contains(attempt))
    }

    /// Whether the filter restricts fields of the key.
    pub(super) fn asks_for_keys(&self) -> bool {
        let texts = [&self.project, &self.stack, &self.package, &self.version, &self.compiler, &self.arch];
        texts.iter().any(|text| !text.is_empty())
    }

    /// Whether an attempt that ended at this time matches the filter's time range.
    pub(super) fn takes_time(&self, ended_unix_ms: u64) -> bool {
        self.from_unix_ms.is_none_or(|from| ended_unix_ms >= from)
            && self.to_unix_ms.is_none_or(|to| ended_unix_ms < to)
    }
}

/// A query over finished attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Which attempts are counted.
    pub filter: Filter,
    /// How the attempts are grouped.
    pub group_by: GroupBy,
    /// Name of the label to group by; empty for other groups.
    pub group_label: String,
    /// Width of a time step in milliseconds; 0 for no steps.
    pub step_ms: u64,
    /// Whether the caller may not see other projects than the filter's: then not even totals or notes include them.
    pub confined: bool,
}
