//! The words for the enumerations of the wire: lower case, without the name of the enumeration.

use plimsoll_proto::v1::{Action, Cause, ChangeKind, CurveKnown, OomOrigin, Outcome, Rung, Source};

/// Whether a verdict says that another attempt is worth it.
pub(crate) fn is_retry(action: Action) -> bool {
    !matches!(action, Action::No | Action::Unspecified)
}

/// For example `as_is`.
pub(crate) fn action(action: Action) -> String {
    word(action.as_str_name(), "ACTION_")
}

/// For example `oom`.
pub(crate) fn cause(cause: Cause) -> String {
    word(cause.as_str_name(), "CAUSE_")
}

/// For example `tool oom`: as people say it.
pub(super) fn cause_name(of: Cause) -> String {
    match of {
        Cause::Unspecified => "no cause known".to_owned(),
        known => cause(known).replace('_', " "),
    }
}

/// For example `succeeded`.
pub(super) fn outcome(outcome: Outcome) -> String {
    word(outcome.as_str_name(), "OUTCOME_")
}

/// For example `limit_above`.
pub(super) fn oom_origin(origin: OomOrigin) -> String {
    word(origin.as_str_name(), "OOM_ORIGIN_")
}

/// For example `no_version`.
pub(super) fn rung(rung: Rung) -> String {
    word(rung.as_str_name(), "RUNG_")
}

/// For example `step`.
pub(super) fn change_kind(kind: ChangeKind) -> String {
    word(kind.as_str_name(), "CHANGE_KIND_")
}

/// For example `one_count`.
pub(super) fn curve_known(known: CurveKnown) -> String {
    word(known.as_str_name(), "CURVE_KNOWN_")
}

/// For example `cgroup_v2`.
pub(super) fn source(source: Source) -> String {
    word(source.as_str_name(), "SOURCE_")
}

fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_lower_case() {
        assert_eq!(action(Action::FewerJobs), "fewer_jobs");
        assert_eq!(cause(Cause::DiskFull), "disk_full");
        assert_eq!(rung(Rung::Exact), "exact");
        assert_eq!(outcome(Outcome::Lost), "lost");
        assert_eq!(source(Source::CgroupV2), "cgroup_v2");
        assert_eq!(change_kind(ChangeKind::Step), "step");
        assert_eq!(curve_known(CurveKnown::OneCount), "one_count");
        assert_eq!(oom_origin(OomOrigin::LimitAbove), "limit_above");
    }

    #[test]
    fn no_and_not_known_are_no_retry() {
        assert!([Action::No, Action::Unspecified].into_iter().all(|action| !is_retry(action)));
        assert!([Action::AsIs, Action::Bigger, Action::Elsewhere].into_iter().all(is_retry));
    }
}
