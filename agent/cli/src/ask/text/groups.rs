//! Prints the groups of attempts with different needs that one prediction covers, for people.

use std::fmt::Write as _;

use plimsoll_proto::{figures, reasons, shown::clean, v1::NeedGroups};

/// A line for each group: how far the sizes cover it, and the field of the key that distinguishes it. Empty if
/// there are no groups.
pub(super) fn render(groups: Option<&NeedGroups>) -> String {
    let Some(groups) = groups.filter(|groups| !groups.groups.is_empty()) else { return String::new() };
    let mut text = format!(
        "{} groups of need among {}, each with what the sizes above mean for it:\n",
        groups.groups.len(),
        reasons::grouped_attempts(groups)
    );
    for group in &groups.groups {
        let range = format!(
            "{} to {}",
            figures::bytes(group.need_least_bytes),
            figures::bytes(group.need_most_bytes)
        );
        let _written = writeln!(
            text,
            "  {:>4} of the attempts  {range:<24} {}",
            figures::percent(group.share),
            reasons::group_coverage(group)
        );
    }
    let _written = writeln!(text, "{}", clean(&groups.reason));
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{NeedGroup, Prediction};

    use super::*;
    use crate::ask::text::render_prediction;

    #[test]
    fn each_group_is_a_line_with_its_range_and_what_covers_it() {
        let group = |share, least: u64, most: u64, within_request| NeedGroup {
            share,
            attempts: if share > 0.5 { 200 } else { 66 },
            need_least_bytes: least << 30,
            need_most_bytes: most << 30,
            within_request,
            within_limit: true,
            begins_within_request: least < 20,
            ..NeedGroup::default()
        };
        let groups = NeedGroups {
            groups: vec![group(0.6, 14, 16, true), group(0.1, 18, 21, false), group(0.3, 34, 41, false)],
            reason: "why\u{1b}[2J".to_owned(),
            ..NeedGroups::default()
        };
        let text = render_prediction(&Prediction { need_groups: Some(groups), ..Prediction::default() });
        let expected = "\
3 groups of need among the 332 attempts that were compared, each with what the sizes above mean for it:
  60 % of the attempts  14.00 GiB to 16.00 GiB   within the request
  10 % of the attempts  18.00 GiB to 21.00 GiB   partly above the request, within the limit
  30 % of the attempts  34.00 GiB to 41.00 GiB   above the request, within the limit
why\\u{1b}[2J
";
        assert!(text.ends_with(expected), "{text}");
        assert!(!render_prediction(&Prediction::default()).contains("groups"));
    }
}
