//! ID tokens of GitHub's jobs, with an issuer of the tests' own: what a job proves counts, and not what its variables say.

use plimsoll_tests::{AccessFile, Answer, Issuer, assert_has};
use serde_json::json;

use super::{workflows::BUILD, *};

const CLOUD: &str = "https://token.actions.githubusercontent.com";
/// What the guide for GitHub has, with a place for the keys.
const TRUST: &str = "kind = \"github\"\naudience = \"plimsoll\"\nkeys_url = \"KEYS\"
[[issuer.grant]]
claims = { repository_owner = \"octo\", event_name = \"push\" }
roles = [\"agent\", \"caller\"]
trusted = true
[[issuer.grant]]
claims = { repository = \"*\" }
roles = [\"agent\"]";

/// A server that trusts an issuer, and whose people may read all.
struct Trusting {
    fleet: Fleet,
    issuer: Issuer,
    _access: tempfile::TempDir,
}

impl Trusting {
    fn start() -> Option<Self> {
        let (issuer, dir) = (Issuer::start().unwrap(), tempfile::tempdir().unwrap());
        let lines = TRUST.replace("KEYS", &format!("{}/keys", issuer.url));
        // what belongs to no table comes first
        let access = AccessFile::default().table("anonymous = { roles = [\"agent\"] }");
        let access = access.token("reads", &["reader"], "").issuer(CLOUD, &lines);
        let path = dir.path().join("access.toml");
        fs::write(&path, access.text()).unwrap();
        let fleet = Fleet::start_with(&["--access-file", path.to_str().unwrap()])?;
        Some(Self { fleet, issuer, _access: dir })
    }

    /// Where a job gets this token, each time that it asks.
    fn gives(&self, repository: &str, claims: &Value) -> String {
        let owner = repository.split('/').next().unwrap();
        let mut all = json!({
            "iss": CLOUD, "repository": repository, "repository_owner": owner, "run_id": "1", "run_attempt": "1", "actor": "eve",
            "ref": "refs/heads/main", "sha": "c0ffee", "event_name": "push", "job_id": null, "project_path": null,
        });
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let answer = json!({"count": 1, "value": self.issuer.token(0, all)}).to_string();
        let url = serve(move |asked| {
            let fits = asked.contains("audience=plimsoll") && asked.contains("bearer of-the-job");
            if fits { (200, answer.clone()) } else { (403, "no".to_owned()) }
        });
        format!("{url}/token?version=2")
    }

    /// A build in a job that says that it is one of `octo/app`.
    fn build(&self, token_url: &str) -> Answer {
        let mut agent = Agent::new(Programs::for_tests(), self.fleet.server.url(), self.fleet.dir.path());
        for (name, value) in [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "octo/app"),
            ("GITHUB_RUN_ID", "1"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("GITHUB_JOB", "build"),
            ("ACTIONS_ID_TOKEN_REQUEST_URL", token_url),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job"),
            ("PLIMSOLL_TOKEN_AUDIENCE", "plimsoll"),
        ] {
            agent = agent.with(name, value);
        }
        agent.run("", "true")
    }

    /// The attempt, as a person sees it; null if there is none.
    fn shown(&self, id: &str) -> Value {
        let agent = Agent::new(Programs::for_tests(), self.fleet.server.url(), self.fleet.dir.path());
        let answer = agent.with("PLIMSOLL_TOKEN", "reads").call(&["show", "--attempt", id, "-o", "json"]);
        serde_json::from_str(&answer.stdout).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_proves_itself_by_an_id_token() {
    let Some(server) = Trusting::start() else { return };
    let url = server.gives("octo/proven", &json!({}));
    // so that the server has the issuer's keys
    server.build(&url);
    let env = format!(
        "env: {{ ACTIONS_ID_TOKEN_REQUEST_URL: '{url}', ACTIONS_ID_TOKEN_REQUEST_TOKEN: of-the-job }}"
    );
    let workflow = BUILD.replace("    steps:", &format!("    {env}\n    steps:")) + "sleep 1\n";
    let Some(repository) = Repository::new(&server.fleet, "proven", &workflow) else { return };
    let printed = text(&repository.run());
    assert_has(&printed, ["delivered as github:octo/proven:1.1/build", "Job succeeded"]);
    let shown = server.shown("github:octo/proven:1.1/build");
    assert_eq!(shown["summary"]["untrusted"], false, "{shown} {printed}");
    assert_eq!(shown["summary"]["key"]["owner"], "eve", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forks_token_writes_no_others_attempt() {
    let Some(server) = Trusting::start() else { return };
    let url = server.gives("eve/app", &json!({}));
    for _try in 0..2 {
        let ran = server.build(&url);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.stderr.contains("delivered as"), "{}", ran.stderr);
    }
    assert_has(&server.build(&url).stderr, ["the token was made for job github:eve/app:1.1/"]);
    assert_eq!(server.shown("github:octo/app:1.1/build"), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_push_or_token_nothing_is_trusted() {
    for (event, with_token) in [("pull_request_target", true), ("schedule", true), ("push", false)] {
        let Some(server) = Trusting::start() else { return };
        let url = server.gives("octo/app", &json!({"event_name": event}));
        let ran = server.build(if with_token { &url } else { "" });
        assert_has(&ran.stderr, ["delivered as github:octo/app:1.1/build"]);
        let shown = server.shown("github:octo/app:1.1/build");
        assert_eq!(shown["summary"]["untrusted"], true, "{event}: {shown}");
    }
}
