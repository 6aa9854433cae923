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
