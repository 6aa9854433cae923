//! A hint for an answer about a package that is unknown in the key's project.
//!
//! A package in two projects counts as two different builds, so attempts of another project, or without a
//! project, do not count for the key: the answer is then the default, or is based on other packages. The hint
//! names the projects that have the package. The server lists only those that the caller may see.

use plimsoll_client::questions::Client;
use plimsoll_proto::{
    figures::counted,
    shown::clean,
    sums::OTHERS_GROUP,
    v1::{Filter, GetStatsRequest, Group, GroupBy, Key, Prediction, Rung},
};

/// Most projects that the hint names.
const MAX_PROJECTS: usize = 3;

/// The hint as a line below an answer; empty if the answer is based on the package itself.
pub(super) async fn hint_other_projects(client: &Client, key: &Key, answer: Option<&Prediction>) -> String {
    if answer.is_none_or(knows_package) {
        return String::new();
    }
    let filter = Filter { package: key.package.clone(), ..Filter::default() };
    let question = GetStatsRequest {
        filter: Some(filter),
        group_by: GroupBy::Project.into(),
        ..GetStatsRequest::default()
    };
    // a caller that may not read statistics gets the hint without names of projects
    let groups = client.stats(question).await.map(|stats| stats.groups).unwrap_or_default();
    if key.project.is_empty() { hint_line(&key.package, &groups) } else { line_elsewhere(key, &groups) }
}

/// Whether the memory sizes are based on attempts of the package itself.
fn knows_package(answer: &Prediction) -> bool {
    let basis = answer.memory_request_bytes.as_ref().and_then(|request| request.basis.as_ref());
    let others = [Rung::BuildSystem, Rung::Fleet, Rung::Default, Rung::Unspecified];
    basis.is_some_and(|basis| !others.contains(&basis.rung()))
}

fn attempts_of(group: &Group) -> u64 {
    group.totals.as_ref().map_or(0, |totals| totals.attempts)
}

/// The hint for a key with a project: the package is known in another project, or without a project.
fn line_elsewhere(key: &Key, groups: &[Group]) -> String {
    let is_elsewhere =
        |group: &&Group| group.name != key.project && group.name != OTHERS_GROUP && attempts_of(group) > 0;
    let Some(most) = groups.iter().filter(is_elsewhere).max_by_key(|group| attempts_of(group)) else {
        return String::new();
    };
    let (package, project) = (clean(&key.package), clean(&key.project));
    let known = counted(attempts_of(most), "attempt");
    let (of, add) = match most.name.as_str() {
        "" | "(none)" => ("without a project".to_owned(), String::new()),
        name => (format!("of {}", clean(name)), clean(name)),
    };
    format!(
        "nothing is known of {package} in project {project}; {package} {of} has {known}: --key project={add} asks about that\n"
    )
}

fn hint_line(package: &str, groups: &[Group]) -> String {
    let is_project = |group: &&Group| !group.name.starts_with('(') && !group.name.is_empty();
    let mut projects: Vec<&Group> = groups.iter().filter(is_project).collect();
    projects.sort_by_key(|group| std::cmp::Reverse(attempts_of(group)));
    let package = clean(package);
    let Some(most) = projects.first() else {
        return "the key names no project: attempts of a project count only with --key project=NAME\n"
            .to_owned();
    };
    let has =
        |group: &&Group| format!("{} has {}", clean(&group.name), counted(attempts_of(group), "attempt"));
    let named: Vec<String> = projects.iter().take(MAX_PROJECTS).map(has).collect();
    let more = if projects.len() > MAX_PROJECTS { ", and others" } else { "" };
    format!(
        "nothing is known of {package} without a project; {package} of {}{more}: add --key project={}\n",
        named.join(", of "),
        clean(&most.name)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Basis, Quantity, StatsTotals};

    use super::*;

    fn group(name: &str, attempts: u64) -> Group {
        Group { name: name.to_owned(), totals: Some(StatsTotals { attempts, ..StatsTotals::default() }) }
    }

    #[test]
    fn the_hint_suggests_the_project_with_most_attempts() {
        assert_eq!(
            hint_line("zlib", &[group("a/b", 1), group("spack\u{1b}[2J", 12), group("(none)", 99)]),
            "nothing is known of zlib without a project; zlib of spack\\u{1b}[2J has 12 attempts, of a/b has 1 attempt: \
             add --key project=spack\\u{1b}[2J\n"
        );
        let many: Vec<Group> = ["a", "b", "c", "d"].map(|name| group(name, 2)).to_vec();
        let line = hint_line("zlib", &many);
        assert!(line.contains("of c has 2 attempts, and others: add"), "{line}");
    }

    #[test]
    fn a_package_known_elsewhere_names_those_projects() {
        let key = Key { package: "zlib".to_owned(), project: "a/b".to_owned(), ..Key::default() };
        let hint = |groups: &[Group]| line_elsewhere(&key, groups);
        let expected = "nothing is known of zlib in project a/b; zlib without a project has 12 attempts: --key project= asks about that\n";
        assert_eq!(hint(&[group("(none)", 12), group("c/d", 3)]), expected);
        let expected = "nothing is known of zlib in project a/b; zlib of c/d has 1 attempt: --key project=c/d asks about that\n";
        assert_eq!(hint(&[group("c/d", 1)]), expected);
        assert_eq!([hint(&[]), hint(&[group("a/b", 7)])], ["", ""]);
    }

    #[test]
    fn answers_from_other_packages_count_as_unknown() {
        let of = |rung: Rung| {
            let basis = Some(Basis { rung: rung.into(), ..Basis::default() });
            let request = Some(Quantity { value: 1, basis });
            knows_package(&Prediction {
                memory_request_bytes: request,
                attempts: 40,
                ..Prediction::default()
            })
        };
        assert!(of(Rung::Exact) && of(Rung::Package));
        assert!(!of(Rung::Fleet) && !of(Rung::BuildSystem) && !of(Rung::Default));
    }
}
