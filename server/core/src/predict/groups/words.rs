//! Describes groups of need: what each needs, what the sizes cover, and which field distinguishes them.

use std::fmt::Write as _;

use crate::domain::{Bytes, Distinction, NeedGroup, NeedGroups};

const ORDINALS: [&str; 4] = ["first", "second", "third", "fourth"];

/// One paragraph for a CI engineer. `sizes`: request and limit predicted over all groups, if there are any.
pub fn describe(groups: &NeedGroups, sizes: Option<[Bytes; 2]>) -> String {
    let mut text = format!("These attempts are {} groups with different needs:", groups.groups.len());
    for (at, group) in groups.groups.iter().enumerate() {
        let mark = if at == 0 { "" } else { "," };
        let [least, _, most] = group.need;
        let (attempts, share) = (counted_attempts(group.attempts), group.share * 100.0);
        let _written = write!(text, "{mark} {attempts} ({share:.0} %) needed {least} to {most}");
    }
    text.push_str(". ");
    if let Some([request, limit]) = sizes {
        let covers = |size: Bytes| format!("of {size} covers {}", coverage_words(&groups.groups, size));
        let _written = write!(text, "The request {}; the limit {}. ", covers(request), covers(limit));
    }
    match &groups.told_apart_by {
        Some(by) => text.push_str(&distinction_words(by)),
        None => text.push_str(&unknown_words(groups)),
    }
    text
}

fn counted_attempts(attempts: u32) -> String {
    if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") }
}

/// Describes which groups a size covers. Groups are sorted by need, so the covered ones come first.
fn coverage_words(groups: &[NeedGroup], size: Bytes) -> String {
    let whole = groups.iter().take_while(|group| group.need[2] <= size).count();
    let begun = groups.get(whole).is_some_and(|group| group.need[0] <= size);
    let next = ORDINALS.get(whole).copied().unwrap_or_default();
    let rest = if begun { format!("part of the {next}") } else { format!("not the {next}") };
    match (whole, groups.len()) {
        (0, _) if begun => format!("part of the {next} group"),
        (0, _) => "none of them".to_owned(),
        (whole, all) if whole == all => {
            if all == 2 {
                "both".to_owned()
            } else {
                "all of them".to_owned()
            }
        }
        (whole, _) => {
            format!("the {} and {rest}", ORDINALS.get(..whole).unwrap_or_default().join(" and the "))
        }
    }
}

fn distinction_words(by: &Distinction) -> String {
    let mut text = format!("What tells them apart is the {}:", by.field);
    let mut mark = "";
    for (values, name) in by.values.iter().zip(ORDINALS).filter(|(values, _)| !values.is_empty()) {
        let _written = write!(text, "{mark} {} in the {name}", values.join(" or "));
        mark = ",";
    }
    if by.accuracy < 0.995 {
        let _written = write!(text, " (right for {:.0} % of the attempts)", by.accuracy * 100.0);
    }
    if let Some(name) = by.asked.and_then(|group| ORDINALS.get(group)) {
        let _written = write!(text, "; this build is of the {name} group");
    }
    text + "."
}

/// Text for groups that no recorded field distinguishes: suggests fields to record.
fn unknown_words(groups: &NeedGroups) -> String {
    let what =
        if groups.looked_at_all { "Nothing that is recorded tells" } else { "Nothing in the key tells" };
    let next =
        if groups.looked_at_all { "" } else { " (`plimsoll explain` looks at labels and phases, too)" };
    let record = match groups.unrecorded.as_slice() {
        [] => "record what differs as a label, for example --key label.cache=cold".to_owned(),
        [one] => format!("record the {one}, which no attempt names, or what else differs as a label"),
        names => {
            format!("record {}, which no attempt names, or what else differs as a label", listed_names(names))
        }
    };
    format!("{what} them apart{next}: {record}.")
}

fn listed_names(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn groups(needs: &[[u64; 3]], told_apart_by: Option<Distinction>) -> NeedGroups {
        let group =
            |need: &[u64; 3]| NeedGroup { attempts: 10, share: 0.5, need: need.map(|gib| Bytes(gib * GIB)) };
        let groups = needs.iter().map(group).collect();
        NeedGroups {
            groups,
            told_apart_by,
            unrecorded: vec!["version", "variants", "build_jobs"],
            looked_at_all: true,
        }
    }

    #[test]
    fn the_text_describes_which_groups_sizes_cover() {
        let two = groups(&[[14, 16, 18], [34, 38, 41]], None);
        assert_eq!(
            describe(&two, Some([Bytes(18 * GIB), Bytes(66 * GIB)])),
            "These attempts are 2 groups with different needs: 10 attempts (50 %) needed 14.00 GiB to 18.00 GiB, 10 attempts (50 %) \
             needed 34.00 GiB to 41.00 GiB. The request of 18.00 GiB covers the first and not the second; the limit of 66.00 GiB covers \
             both. Nothing that is recorded tells them apart: record version, variants and build_jobs, which no attempt names, or what \
             else differs as a label."
        );
        for (size, expected) in [
            (1, "none of them"),
            (15, "part of the first group"),
            (20, "the first and not the second"),
            (35, "the first and part of the second"),
            (50, "both"),
        ] {
            assert_eq!(coverage_words(&two.groups, Bytes(size * GIB)), expected);
        }
        let three = groups(&[[1, 1, 1], [3, 3, 3], [9, 9, 9]], None);
        assert_eq!(
            coverage_words(&three.groups, Bytes(4 * GIB)),
            "the first and the second and not the third"
        );
        assert_eq!(coverage_words(&three.groups, Bytes(9 * GIB)), "all of them");
    }

    #[test]
    fn the_text_describes_the_distinguishing_field() {
        let by = Distinction {
            field: "variants".into(),
            values: vec![vec!["~cuda".into(), "~cuda~rocm".into()], vec!["+cuda".into()]],
            accuracy: 0.97,
            asked: Some(1),
        };
        assert_eq!(
            distinction_words(&by),
            "What tells them apart is the variants: ~cuda or ~cuda~rocm in the first, +cuda in the second (right for 97 % of the \
             attempts); this build is of the second group."
        );
        let sure = Distinction {
            values: vec![vec![], vec!["ran".into()]],
            accuracy: 1.0,
            asked: None,
            field: "phase test".into(),
        };
        assert_eq!(distinction_words(&sure), "What tells them apart is the phase test: ran in the second.");
    }

    #[test]
    fn what_to_record_is_what_no_attempt_names() {
        let mut one = groups(&[[1, 1, 1], [3, 3, 3]], None);
        one.unrecorded = vec!["version"];
        assert!(
            unknown_words(&one)
                .ends_with(": record the version, which no attempt names, or what else differs as a label.")
        );
        one.unrecorded.clear();
        one.looked_at_all = false;
        let expected = "Nothing in the key tells them apart (`plimsoll explain` looks at labels and phases, too): record what differs as a label, for example --key label.cache=cold.";
        assert_eq!(unknown_words(&one), expected);
    }
}
