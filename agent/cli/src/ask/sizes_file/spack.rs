//! Groups of packages for Spack's `ci` section: their classes and memory requests.

use plimsoll_proto::{
    recommendations::check_one_project,
    v1::{RecommendResponse, Recommendation},
};

use super::{
    by_hand::ByHand,
    classes::Classes,
    region::{self, Groups},
    report::Report,
    spack_update::SpackUpdate,
    yaml,
};

const HEAD: &str = "# Sizes of build jobs, kept by `plimsoll recommend -o spack --into`. What is outside of the marked lines is kept as it is.\n\
                    ci:\n  pipeline-gen:\n";

/// The file with the sizes of this answer. `old`: what it contains, empty for a new one.
/// Errors: the proposals are for several projects or without sizes by build jobs; the file is no YAML, or has no place for them.
pub(super) fn updated(
    old: &str,
    answer: &RecommendResponse,
    classes: &Classes,
    report: &mut Report,
) -> Result<String, String> {
    check_one_project(answer, "a mapping for Spack")?;
    let before = old;
    let old = if old.trim().is_empty() { HEAD } else { old };
    yaml::parse(old)?;
    let lines: Vec<&str> = old.lines().collect();
    let region = region::find(&lines)?;
    let marked = region.clone().unwrap_or_default();
    let outside: Vec<&str> =
        lines.iter().enumerate().map(|(at, line)| if marked.contains(&at) { "" } else { *line }).collect();
    let documents = yaml::parse(&outside.join("\n"))?;
    let by_hand = ByHand::of(&documents)?;
    let inner = marked.start + 1..marked.end.max(2) - 1;
    let groups = Groups::read(lines.get(inner.clone()).unwrap_or_default(), inner.start + 1)?;
    let (line, indent) = match &region {
        Some(region) => {
            let line = lines.get(region.start).copied().unwrap_or_default();
            (region.start + 1, region::indent_of(line).to_owned())
        }
        None if old == HEAD => (lines.len() + 1, "  ".to_owned()),
        None => by_hand.place(&lines)?,
    };
    let mut update = SpackUpdate { classes, by_hand: &by_hand, groups, report };
    let mut rows: Vec<&Recommendation> = answer.recommendations.iter().collect();
    rows.sort_by(|a, b| a.package.cmp(&b.package));
    for row in rows {
        update.package(row)?;
    }
    update.default_group();
    let SpackUpdate { groups, report, .. } = update;
    report.notes.extend(by_hand.broad.iter().map(|line| {
        format!("line {line} matches packages without a name: Spack joins its tags with those of the sizes")
    }));
    if report.changes.is_empty() {
        return Ok(before.to_owned());
    }
    let text = region::marked(&indent, &groups.write(classes, &indent));
    let new = region::with_marked(old, (line - 1, marked.len()), &text);
    let count = |by_hand: &ByHand| by_hand.packages.values().map(Vec::len).sum::<usize>();
    let expected = count(&by_hand) + groups.entries.len();
    let found = yaml::parse(&new).and_then(|documents| ByHand::of(&documents).map(|of| count(&of)));
    match found {
        Ok(found) if found == expected => Ok(new),
        _ => Err(format!(
            "line {line}: the sizes cannot be put here: write the sections of pipeline-gen in lines of their own"
        )),
    }
}
