//! Filters and groups of the wire, checked.

use plimsoll_proto::v1 as pb;

use super::convert;
use crate::{
    domain::{Fault, Outcome},
    stats::{Filter, GroupBy},
};

pub(super) fn group_by(wire: i32) -> Result<GroupBy, Fault> {
    Ok(match convert::known("group_by", wire)? {
        pb::GroupBy::Unspecified => GroupBy::Nothing,
        pb::GroupBy::Package => GroupBy::Package,
        pb::GroupBy::Stack => GroupBy::Stack,
        pb::GroupBy::Project => GroupBy::Project,
        pb::GroupBy::Cause => GroupBy::Cause,
        other => {
            return Err(Fault::new("group_by", format!("is {}, which is not counted", other.as_str_name())));
        }
    })
}

pub(super) fn filter(wire: Option<pb::Filter>) -> Result<Filter, Fault> {
    let wire = wire.unwrap_or_default();
    let outcome = match convert::known("filter.outcome", wire.outcome)? {
        pb::Outcome::Unspecified => None,
        pb::Outcome::Succeeded => Some(Outcome::Succeeded),
        pb::Outcome::Failed => Some(Outcome::Failed),
        pb::Outcome::Lost => Some(Outcome::Lost),
        pb::Outcome::Running => {
            return Err(Fault::new(
                "filter.outcome",
                "running attempts are shown by Watch; the rest here has ended",
            ));
        }
    };
    if let (Some(from), Some(to)) = (wire.from_unix_ms, wire.to_unix_ms)
        && from > to
    {
        return Err(Fault::new("filter.from_unix_ms", "is after filter.to_unix_ms"));
    }
    Ok(Filter {
        project: wire.project,
        stack: wire.stack,
        package: wire.package,
        from_unix_ms: wire.from_unix_ms,
        to_unix_ms: wire.to_unix_ms,
        outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_this_server_does_not_know_are_named() {
        let bad = pb::Filter { outcome: 99, ..pb::Filter::default() };
        assert_eq!(filter(Some(bad)).unwrap_err().field, "filter.outcome");
        assert_eq!(group_by(99).unwrap_err().field, "group_by");
    }
}
