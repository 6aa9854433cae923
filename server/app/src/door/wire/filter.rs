//! Parses filters and groups of requests.

use std::collections::HashMap;

use plimsoll_core::{
    domain::{Cause, FieldViolation, Outcome},
    stats::{Filter, GroupBy, Question},
};
use plimsoll_proto::{limits, v1 as pb};

use super::known;

/// Parses a request `GetStats`.
pub(crate) fn question(wire: pb::GetStatsRequest) -> Result<Question, FieldViolation> {
    let pb::GetStatsRequest { filter, group_by, step_ms, group_label } = wire;
    let group_by = known("group_by", group_by)?;
    let rule = match (group_by, group_label.as_str()) {
        (GroupBy::Label, "") => Err("is empty; name the label to group by"),
        (GroupBy::Label, _) | (_, "") => Ok(()),
        _ => Err("needs group_by GROUP_BY_LABEL"),
    };
    rule.map_err(|rule| FieldViolation::new("group_label", rule))?;
    let group_label = check_text("group_label", group_label, limits::LABEL_BYTES)?;
    Ok(Question { filter: self::filter(filter)?, group_by, group_label, step_ms, confined: false })
}

/// Parses a filter.
pub(crate) fn filter(wire: Option<pb::Filter>) -> Result<Filter, FieldViolation> {
    let pb::Filter {
        project,
        stack,
        package,
        from_unix_ms,
        to_unix_ms,
        outcome,
        version,
        compiler,
        arch,
        pool,
        ref_class,
        owner,
        cause,
        labels,
        signature,
    } = wire.unwrap_or_default();
    let outcome = read_outcome(outcome)?;
    let cause = Cause::of_wire(known("filter.cause", cause)?);
    if let (Some(from), Some(to)) = (from_unix_ms, to_unix_ms)
        && from > to
    {
        return Err(FieldViolation::new("filter.from_unix_ms", "is after filter.to_unix_ms"));
    }
    let part = |name: &str, value| check_text(&format!("filter.{name}"), value, limits::KEY_FIELD_BYTES);
    Ok(Filter {
        project: part("project", project)?,
        stack: part("stack", stack)?,
        package: part("package", package)?,
        version: part("version", version)?,
        compiler: part("compiler", compiler)?,
        arch: part("arch", arch)?,
        pool: part("pool", pool)?,
        ref_class: part("ref_class", ref_class)?,
        owner: part("owner", owner)?,
        from_unix_ms,
        to_unix_ms,
        outcome,
        cause,
        labels: read_labels(labels)?.into_iter().collect(),
        signature: part("signature", signature)?,
        known_by: None,
    })
}

fn read_outcome(wire: i32) -> Result<Option<Outcome>, FieldViolation> {
    let outcome = known("filter.outcome", wire)?;
    if outcome == pb::Outcome::Running {
        let rule = "running attempts are shown by Watch; the rest here has ended";
        return Err(FieldViolation::new("filter.outcome", rule));
    }
    Ok(Outcome::of_wire(outcome))
}

fn read_labels(wire: HashMap<String, String>) -> Result<HashMap<String, String>, FieldViolation> {
    if wire.len() > limits::FILTER_LABELS {
        let description = format!("has {} labels, at most {} are allowed", wire.len(), limits::FILTER_LABELS);
        return Err(FieldViolation::new("filter.labels", description));
    }
    for (name, value) in &wire {
        if name.is_empty() || value.is_empty() {
            let description = format!("has {name:?} with {value:?}; a label needs a name and a value");
            return Err(FieldViolation::new("filter.labels", description));
        }
        for part in [name, value] {
            check_text("filter.labels", part.clone(), limits::LABEL_BYTES)?;
        }
    }
    Ok(wire)
}

pub(super) fn check_text(field: &str, value: String, limit: usize) -> Result<String, FieldViolation> {
    if value.len() > limit {
        return Err(FieldViolation::new(
            field,
            format!("has {} bytes, at most {limit} are allowed", value.len()),
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(filter: pb::Filter) -> String {
        super::filter(Some(filter)).unwrap_err().field
    }

    #[test]
    fn unknown_enum_values_are_refused_by_field() {
        assert_eq!(field(pb::Filter { outcome: 99, ..pb::Filter::default() }), "filter.outcome");
        assert_eq!(field(pb::Filter { cause: 99, ..pb::Filter::default() }), "filter.cause");
        let asked = pb::GetStatsRequest { group_by: 99, ..Default::default() };
        assert_eq!(question(asked).unwrap_err().field, "group_by");
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_named() {
        let label = |name: &str, value: &str| pb::Filter {
            labels: [(name.to_owned(), value.to_owned())].into(),
            ..pb::Filter::default()
        };
        assert_eq!(field(label("", "x")), "filter.labels");
        assert_eq!(field(label("x", "")), "filter.labels");
        assert_eq!(field(label("x", &"y".repeat(129))), "filter.labels");
        let many = (0..9).map(|n| (n.to_string(), "x".to_owned())).collect();
        assert_eq!(field(pb::Filter { labels: many, ..pb::Filter::default() }), "filter.labels");
        assert_eq!(field(pb::Filter { owner: "x".repeat(1 << 20), ..pb::Filter::default() }), "filter.owner");
        let turned = pb::Filter { from_unix_ms: Some(2), to_unix_ms: Some(1), ..pb::Filter::default() };
        assert_eq!(field(turned), "filter.from_unix_ms");
    }

    #[test]
    fn group_by_label_requires_a_label_name() {
        let by = |by: GroupBy, label: &str| {
            question(pb::GetStatsRequest {
                group_by: by.into(),
                group_label: label.to_owned(),
                ..Default::default()
            })
        };
        assert_eq!(by(GroupBy::Label, "").unwrap_err().field, "group_label");
        assert_eq!(by(GroupBy::Owner, "stage").unwrap_err().field, "group_label");
        assert_eq!(by(GroupBy::Label, "stage").unwrap().group_label, "stage");
    }

    #[test]
    fn every_cause_can_be_filtered_by() {
        for number in 1..=16 {
            let asked = filter(Some(pb::Filter { cause: number, ..pb::Filter::default() })).unwrap();
            assert!(asked.cause.is_some(), "{number}");
        }
    }
}
