//! Groups of need that one prediction is over, for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{NeedGroup, NeedGroups};

use super::clean;
use crate::ask::numbers;

/// A line for each group, and in words what the sizes cover and what tells the groups apart; nothing without groups.
pub(super) fn render(groups: Option<&NeedGroups>) -> String {
    let Some(groups) = groups.filter(|groups| !groups.groups.is_empty()) else { return String::new() };
    let mut text =
        format!("{} groups of need, each with what the sizes above mean for it:\n", groups.groups.len());
    for group in &groups.groups {
        let range = format!(
            "{} to {}",
            numbers::bytes(group.need_least_bytes),
            numbers::bytes(group.need_most_bytes)
        );
        let _written = writeln!(
            text,
            "  {:>4} of the attempts  {range:<24} {}",
            numbers::percent(group.share),
            covered(group)
        );
    }
    let _written = writeln!(text, "{}", clean(&groups.reason));
    text
}

/// What the sizes mean for a group.
pub(in crate::ask) fn covered(group: &NeedGroup) -> &'static str {
    match (group.within_request, group.within_limit) {
        (true, _) => "within the request",
        (false, true) => "above the request, within the limit",
        (false, false) => "above the limit",
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Prediction;

    use super::*;
    use crate::ask::text::render_prediction;

    #[test]
    fn each_group_is_a_line_with_its_range_and_what_covers_it() {
        let group = |share, least: u64, most: u64, within_request| NeedGroup {
            share,
            need_least_bytes: least << 30,
            need_most_bytes: most << 30,
            within_request,
            within_limit: true,
            ..NeedGroup::default()
        };
        let groups = NeedGroups {
            groups: vec![group(0.7, 14, 18, true), group(0.3, 34, 41, false)],
            reason: "why\u{1b}[2J".to_owned(),
            ..NeedGroups::default()
        };
        let text = render_prediction(&Prediction { need_groups: Some(groups), ..Prediction::default() });
        let expected = "\
2 groups of need, each with what the sizes above mean for it:
  70 % of the attempts  14.00 GiB to 18.00 GiB   within the request
  30 % of the attempts  34.00 GiB to 41.00 GiB   above the request, within the limit
why [2J
";
        assert!(text.ends_with(expected), "{text}");
        assert!(!render_prediction(&Prediction::default()).contains("groups"));
        assert_eq!(covered(&NeedGroup::default()), "above the limit");
    }
}
