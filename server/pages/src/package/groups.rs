//! Shows the groups of attempts with different needs that one prediction covers.

use maud::{Markup, html};
use plimsoll_proto::{
    reasons,
    v1::{NeedGroup, NeedGroups, Prediction},
};

use crate::{
    figures::{bytes, count, percent},
    table::table,
    words,
};

/// Each group with its need, and whether the predicted sizes cover it. Empty if there is only one group.
pub(super) fn show(prediction: &Prediction) -> Markup {
    let Some(groups) = prediction.need_groups.as_ref().filter(|groups| !groups.groups.is_empty()) else {
        return Markup::default();
    };
    let by = format!("¶{}", distinguishing_field(groups));
    let heads =
        ["#Attempts", "#Of these", "#Least need", "#Median", "#Highest", "¶With the sizes above", &by];
    let row = |(at, group): (usize, &NeedGroup)| {
        [
            count(group.attempts.into()),
            percent(group.share),
            bytes(group.need_least_bytes),
            bytes(group.need_median_bytes),
            bytes(group.need_most_bytes),
            reasons::group_coverage(group).to_owned(),
            values(groups, at),
        ]
        .map(|text| html! { (text) })
    };
    html! {
        h2 { "Groups with different needs" }
        p.why { "Among " (reasons::grouped_attempts(groups)) ". " (words::marked_up(&words::sentence(&groups.reason))) }
        (table("Groups with different needs", heads.map(str::to_owned), groups.groups.iter().enumerate().map(row)))
    }
}

fn distinguishing_field(groups: &NeedGroups) -> &str {
    groups.told_apart_by.as_ref().map_or("Told apart by", |by| by.field.as_str())
}

/// The values of the key's field that distinguish this group.
fn values(groups: &NeedGroups, at: usize) -> String {
    let of = groups.told_apart_by.as_ref().and_then(|by| by.values.get(at));
    let joined = of.map(|values| values.values.join(", ")).unwrap_or_default();
    match joined.is_empty() {
        true if groups.told_apart_by.is_none() => "nothing that is recorded".to_owned(),
        true => "other values".to_owned(),
        false => joined,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{DistinctValues, Distinction};

    use super::*;

    #[test]
    fn need_groups_are_a_table_naming_their_distinctions() {
        let group = |most: u64, within_request| NeedGroup {
            attempts: 1200,
            need_most_bytes: most << 30,
            within_request,
            within_limit: true,
            ..NeedGroup::default()
        };
        let mut groups =
            NeedGroups { groups: vec![group(18, true), group(41, false)], ..NeedGroups::default() };
        let shown = |groups: &NeedGroups| {
            show(&Prediction { need_groups: Some(groups.clone()), ..Prediction::default() }).into_string()
        };
        let html = shown(&groups);
        for part in ["1,200", "above the request, within the limit", "nothing that is recorded"] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        let values = |values: &[&str]| DistinctValues {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let by = Distinction {
            field: "label <b>".into(),
            values: vec![values(&["warm"]), values(&[])],
            ..Distinction::default()
        };
        groups.told_apart_by = Some(by);
        let html = shown(&groups);
        assert!(
            html.contains("label &lt;b&gt;") && html.contains("warm") && html.contains("other values"),
            "{html}"
        );
        assert_eq!(show(&Prediction::default()).into_string(), "");
    }
}
