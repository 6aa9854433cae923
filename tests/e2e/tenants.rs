//! What a reader sees: of other projects nothing, whatever it asks for and wherever; of what is private only its own.

use std::fs;

use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{AccessFile, Sender, Site, batch, finish, hello, http::bearer, with_token};

use crate::access::tokens;

/// Those of [`tokens`], and `other-secret`.
fn two_tenants() -> AccessFile {
    tokens().named("other", "other-secret", &["reader", "caller"], "projects = [\"other/*\"]")
}

/// In everything that is known of the attempt of `spack/packages`.
const MARK: &str = "0.0.7-spy";
/// In what is private of it.
const PRIVATE: &str = "acme_corp";
/// Every page, and its JSON.
const PATHS: [&str; 16] = [
    "/",
    "/packages",
    "/packages/zlib",
    "/attempts",
    "/attempts?package=zlib",
    "/attempts/theirs",
    "/running",
    "/settings",
    "/metrics",
    "/api/stats?group_by=version",
    "/api/packages",
    "/api/packages/zlib",
    "/api/attempts",
    "/api/attempts/theirs",
    "/api/running",
    "/api/settings",
];
/// Every question of the command line; each is put as it is, and of both projects.
const QUESTIONS: [&[&str]; 7] = [
    &["attempts"],
    &["stats", "--by", "version"],
    &["stats", "--by", "label=customer"],
    &["attempts", "--label", "customer=acme_corp"],
    &["show", "--attempt", "theirs"],
    &["explain", "--key", "package=zlib"],
    &["predict", "--key", "package=zlib"],
];

/// Of two tenants.
struct Tenants(Site);

impl Tenants {
    /// With one failed attempt of `spack/packages`, and one that still runs.
    fn start() -> Self {
        let options = ["--private-labels", "customer,hr-*", "--private-logs", "on"];
        let site = Site::start_with(&[("--access-file", two_tenants().text())], &options).unwrap();
        let runner = site.agent_as("runner-secret");
        let log = site.dir.path().join("build.log");
        fs::write(&log, format!("x.c:1:1: error: '{PRIVATE}' undeclared\n")).unwrap();
        let version = format!("version={MARK}");
        let label = format!("label.customer={PRIVATE}");
        let keys =
            ["--key", "package=zlib", "--key", "project=spack/packages", "--key", &version, "--key", &label];
        let run = [&["run", "--attempt", "theirs"][..], &keys, &["--", "false"]].concat();
        assert_eq!(runner.call(&run).code, Some(1));
        let log = log.display().to_string();
        let judged = runner.call(&["should-retry", "--attempt", "theirs", "--exit-code", "1", "--log", &log]);
        assert!(judged.stdout.contains(PRIVATE), "the sender of a log sees it: {judged:?}");
        Self(site)
    }

    /// All that a reader can get, with the question that it answers.
    fn everything(&self, token: &str) -> Vec<(String, String)> {
        let mut answers = Vec::new();
        for path in PATHS {
            let joint = if path.contains('?') { "&" } else { "?" };
            for project in ["", "project=spack/packages", "project=other/one"] {
                let path = format!("{path}{joint}range=all&{project}");
                let answer = self.0.server.send("GET", &path, &bearer(token), "").unwrap();
                answers.push((path, answer.text()));
            }
        }
        let agent = self.0.agent_as(token);
        for question in QUESTIONS {
            let asks = question.contains(&"--key");
            for project in ["", "spack/packages", "other/one"] {
                let key = format!("project={project}");
                let named: &[&str] = match project {
                    "" => &[],
                    _ if asks => &["--key", &key],
                    project => &["--project", project],
                };
                let words = [question, named, &["-o", "json"]].concat();
                let answer = agent.call(&words);
                answers.push((words.join(" "), format!("{}{}", answer.stdout, answer.stderr)));
            }
        }
        answers
    }
}

#[test]
fn no_caller_sees_foreign_or_private_data() {
    let site = Tenants::start();
    for (question, answer) in site.everything("other-secret") {
        assert!(!answer.contains(MARK), "a reader of another project: {question}\n{answer}");
        assert!(!answer.contains(PRIVATE) || question.contains(PRIVATE), "{question}\n{answer}");
    }
    let mut seen = 0;
    for (question, answer) in site.everything("reader-secret") {
        let asked = question.contains(PRIVATE);
        assert!(!answer.contains(PRIVATE) || asked, "a reader of all projects: {question}\n{answer}");
        seen += u32::from(answer.contains(MARK));
    }
    assert!(seen > 10, "else nothing was looked at: {seen}");
    let all: Vec<_> = site.everything("spack-secret");
    let of = |path: &str| {
        all.iter().filter(|(question, answer)| question.starts_with(path) && answer.contains(PRIVATE)).count()
    };
    for own in
        ["/attempts/theirs", "/api/attempts/theirs", "/api/attempts?", "attempts", "show", "stats --by label"]
    {
        assert!(of(own) > 0, "the project's own readers see it: {own}");
    }
}

#[test]
fn hints_name_projects_only_to_permitted_callers() {
    let site = Tenants::start();
    let asked = |token| site.0.agent_as(token).call(&["predict", "--key", "package=zlib"]);
    let runner = asked("runner-secret");
    assert!(runner.stdout.contains("\nthe key names no project: "), "{runner:?}");
    for answer in [runner, asked("other-secret")] {
        assert!(!format!("{answer:?}").contains("spack/packages"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_taken_elsewhere_blocks_no_project() {
    let access = AccessFile::default()
        .named("a", "a-secret", &["agent", "caller", "reader"], "projects = [\"a/*\"]\ntrusted = true")
        .named("b", "b-secret", &["agent", "caller", "reader"], "projects = [\"b/*\"]\ntrusted = true");
    let site = Site::start_with(&[("--access-file", access.text())], &[]).unwrap();
    for id in ["build-1", "ci.example:7"] {
        for (name, project, samples) in [("a", "a/one", 2), ("b", "b/two", 3)] {
            let token = format!("{name}-secret");
            let mut stream = Sender::open_as(site.connect().await.unwrap(), &token).await.unwrap();
            let key = pb::Key { project: project.into(), package: "zlib".into(), ..pb::Key::default() };
            let session = format!("run-of-{name}");
            let greeting = pb::Hello { session, key: Some(key), ..hello(id, "zlib") };
            assert_eq!(stream.exchange(greeting.clone()).await.unwrap(), 0, "{id} {project}");
            assert_eq!(stream.exchange(batch(id, 1, 1)).await.unwrap(), 1, "{id} {project}");
            let mut again = Sender::open_as(site.connect().await.unwrap(), &token).await.unwrap();
            assert_eq!(again.exchange(greeting).await.unwrap(), 1, "it comes again");
            assert_eq!(again.exchange(batch(id, 2, samples - 1)).await.unwrap(), samples);
            again.exchange(finish(id, samples, Some(1))).await.unwrap();
            let mut stats = StatsClient::new(site.connect().await.unwrap());
            let about = pb::GetAttemptRequest { attempt: id.into(), ..Default::default() };
            let shown = stats.get_attempt(with_token(&token, about)).await.unwrap().into_inner();
            assert_eq!(shown.summary.unwrap().samples, samples, "{id} {project}");
        }
    }
}
