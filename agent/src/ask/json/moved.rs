//! JSON of what stands out: needs that have moved, packages whose need varies, failures that go away.

use plimsoll_proto::v1::{Flaky, MixedNeed, Regression, Variable};
use serde::Serialize;

use super::groups::NeedGroupsJson;
use crate::ask::words;

/// A build whose need has moved.
#[derive(Debug, Serialize)]
pub(in crate::ask) struct RegressionJson {
    key: String,
    /// `step`, `back` or `drift`.
    kind: String,
    /// The first attempt on the new level; of a drift the oldest that was looked at.
    attempt: String,
    ended_unix_ms: u64,
    factor: f64,
    before_bytes: u64,
    now_bytes: u64,
    attempts_before: u32,
    attempts_since: u32,
    /// What changed in the key; empty if nothing did.
    changed: String,
    /// Below 0 if it needs less.
    extra_gib_hours: f64,
}

impl From<&Regression> for RegressionJson {
    fn from(regression: &Regression) -> Self {
        Self {
            key: regression.key.clone(),
            kind: words::change_kind(regression.kind()),
            attempt: regression.attempt.clone(),
            ended_unix_ms: regression.ended_unix_ms,
            factor: regression.factor,
            before_bytes: regression.before_bytes,
            now_bytes: regression.now_bytes,
            attempts_before: regression.attempts_before,
            attempts_since: regression.attempts_since,
            changed: regression.changed.clone(),
            extra_gib_hours: regression.extra_gib_hours,
        }
    }
}

/// A build that hides groups with different needs.
#[derive(Debug, Serialize)]
pub(in crate::ask) struct MixedNeedJson {
    key: String,
    package: String,
    groups: Option<NeedGroupsJson>,
    /// What one size for all holds above what the groups need.
    extra_gib_hours: f64,
}

impl From<&MixedNeed> for MixedNeedJson {
    fn from(mixed: &MixedNeed) -> Self {
        Self {
            key: mixed.key.clone(),
            package: mixed.package.clone(),
            groups: mixed.groups.as_ref().map(NeedGroupsJson::from),
            extra_gib_hours: mixed.extra_gib_hours,
        }
    }
}

/// A package whose need varies between attempts of one build.
#[derive(Debug, Serialize)]
pub(super) struct VariableJson {
    package: String,
    attempts: u32,
    /// Standard deviation over mean.
    variation: f64,
    need_min_bytes: u64,
    need_max_bytes: u64,
}

impl From<&Variable> for VariableJson {
    fn from(variable: &Variable) -> Self {
        Self {
            package: variable.package.clone(),
            attempts: variable.attempts,
            variation: variable.variation,
            need_min_bytes: variable.need_min_bytes,
            need_max_bytes: variable.need_max_bytes,
        }
    }
}

/// How often a retry as it was helped against one failure.
#[derive(Debug, Serialize)]
pub(super) struct FlakyJson {
    key: String,
    signature: String,
    signature_line: String,
    /// The first line of one log that says what went wrong, as it was; empty from an older server.
    failure_line: String,
    retried: u32,
    passed: u32,
}

impl From<&Flaky> for FlakyJson {
    fn from(flaky: &Flaky) -> Self {
        Self {
            key: flaky.key.clone(),
            signature: flaky.signature.clone(),
            signature_line: flaky.signature_line.clone(),
            failure_line: flaky.failure_line.clone(),
            retried: flaky.retried,
            passed: flaky.passed,
        }
    }
}
