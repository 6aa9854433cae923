//! A build in a job of a CI system other than GitLab: its key, its ids and its trust, as the server has them.

use plimsoll_tests::{Agent, Site};

fn in_github(agent: Agent, attempt: &str, event: &str) -> Agent {
    let variables = [
        ("CI", "true"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "octocat/app"),
        ("GITHUB_RUN_ID", "12"),
        ("GITHUB_JOB", "build"),
        ("GITHUB_RUN_ATTEMPT", attempt),
        ("GITHUB_EVENT_NAME", event),
    ];
    variables.into_iter().fold(agent, |agent, (name, value)| agent.with(name, value))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_github_job_gets_key_ids_and_trust() {
    let site = Site::start().unwrap();
    let first = in_github(site.agent.clone(), "1", "push");
    for code in [3, 0] {
        let ran = first.run("", &format!("echo ::group::tests; exit {code}"));
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.stderr.contains("::group::plimsoll: build"), "{ran:?}");
        assert!(ran.stderr.contains("::endgroup::"), "{ran:?}");
    }
    in_github(site.agent.clone(), "2", "push").run("", "true");
    in_github(site.agent.clone(), "3", "pull_request").run("", "true");
    let shown = |id: &str| site.agent.json(&["show", "--attempt", id])["summary"].clone();
    for (id, number, outcome, is_foreign) in [
        ("github:octocat/app:12.1/build", 1, "failed", false),
        ("github:octocat/app:12.1/build.2", 1, "succeeded", false),
        ("github:octocat/app:12.2/build", 2, "succeeded", false),
        ("github:octocat/app:12.3/build", 3, "succeeded", true),
    ] {
        let summary = shown(id);
        assert_eq!(summary["key"]["project"], "octocat/app", "{id}: {summary}");
        assert_eq!(summary["key"]["package"], "build", "{id}");
        assert_eq!(summary["number"], number, "{id}");
        assert_eq!(summary["outcome"], outcome, "{id}");
        assert_eq!(summary["untrusted"], is_foreign, "{id}");
    }
    let retried = site.agent.json(&["show", "--attempt", "github:octocat/app:12.1/build"]);
    assert_eq!(retried["retried_by"], "github:octocat/app:12.2/build", "not its second command: {retried}");
}
