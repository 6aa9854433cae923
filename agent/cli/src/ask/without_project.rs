//! What leads on from an answer about a key that names no project. Packages of one name in two projects are different builds, so attempts
//! of a project say nothing about such a key.
//!
//! The server is asked which projects have the package: it names those that the caller may see, and no others.

use plimsoll_client::questions::Client;
use plimsoll_proto::{
    figures::counted,
    shown::clean,
    v1::{Filter, GetStatsRequest, Group, GroupBy, Key, Prediction},
};

/// Projects that are named at most.
const NAMED: usize = 3;

/// A line for people below an answer; empty where something is known, or a project is named.
pub(super) async fn lead_on(client: &Client, key: &Key, answer: Option<&Prediction>) -> String {
    if !key.project.is_empty() || answer.is_none_or(|answer| answer.attempts > 0) {
        return String::new();
    }
    let filter = Filter { package: key.package.clone(), ..Filter::default() };
    let question = GetStatsRequest {
        filter: Some(filter),
        group_by: GroupBy::Project.into(),
        ..GetStatsRequest::default()
    };
    // who may not read statistics gets the way on alone
    let groups = client.stats(question).await.map(|stats| stats.groups).unwrap_or_default();
    line(&key.package, &groups)
}

fn line(package: &str, groups: &[Group]) -> String {
    let attempts = |group: &Group| group.totals.as_ref().map_or(0, |totals| totals.attempts);
    let is_project = |group: &&Group| !group.name.starts_with('(') && !group.name.is_empty();
    let mut projects: Vec<&Group> = groups.iter().filter(is_project).collect();
    projects.sort_by_key(|group| std::cmp::Reverse(attempts(group)));
    let package = clean(package);
    let Some(most) = projects.first() else {
        return "the key names no project: attempts of a project count only with --key project=NAME\n"
            .to_owned();
    };
    let has = |group: &&Group| format!("{} has {}", clean(&group.name), counted(attempts(group), "attempt"));
    let named: Vec<String> = projects.iter().take(NAMED).map(has).collect();
    let more = if projects.len() > NAMED { ", and others" } else { "" };
    format!(
        "nothing is known of {package} without a project; {package} of {}{more}: add --key project={}\n",
        named.join(", of "),
        clean(&most.name)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::StatsTotals;

    use super::*;

    fn group(name: &str, attempts: u64) -> Group {
        Group { name: name.to_owned(), totals: Some(StatsTotals { attempts, ..StatsTotals::default() }) }
    }

    #[test]
    fn the_project_with_most_attempts_is_the_one_to_add() {
        assert_eq!(
            line("zlib", &[group("a/b", 1), group("spack\u{1b}[2J", 12), group("(none)", 99)]),
            "nothing is known of zlib without a project; zlib of spack\\u{1b}[2J has 12 attempts, of a/b has 1 attempt: \
             add --key project=spack\\u{1b}[2J\n"
        );
        let many: Vec<Group> = ["a", "b", "c", "d"].map(|name| group(name, 2)).to_vec();
        assert!(
            line("zlib", &many).contains("of c has 2 attempts, and others: add"),
            "{}",
            line("zlib", &many)
        );
    }

    #[test]
    fn without_a_project_to_name_the_way_on_is_said_alone() {
        let alone = "the key names no project: attempts of a project count only with --key project=NAME\n";
        assert_eq!([line("zlib", &[]), line("zlib", &[group("(none)", 2)])], [alone, alone]);
    }
}
