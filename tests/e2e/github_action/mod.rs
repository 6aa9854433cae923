//! The action and the job hooks of `deploy/github`: in workflows that `act` really runs, and in what a runner makes of them.

mod hooks;
mod tokens;
mod workflows;

use std::{
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use plimsoll_proto::v1::{WatchRequest, stats_client::StatsClient};
use plimsoll_tests::{Agent, Programs, eventually, http};
use serde_json::Value;

use crate::gitlab_include::{Fleet, found, patient, text};

/// The folder of action and hooks.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/github");

/// The attempts on the server, by their packages.
fn attempts(fleet: &Fleet) -> Vec<Value> {
    let agent = Agent::new(Programs::for_tests(), fleet.server.url(), fleet.dir.path());
    let mut found = agent.json(&["attempts"])["attempts"].as_array().unwrap().clone();
    found.sort_by_key(|attempt| attempt["key"]["package"].to_string());
    found
}

/// A script whose last process holds this much memory until the file is there: an agent that reads processes may look once in seconds only.
fn holding(mib: u64, seen: &Path) -> String {
    let (folder, seen) = (seen.parent().unwrap().display(), seen.display());
    // not for ever if the test fails: then its folder goes
    let wait = format!("while test -d {folder} && ! test -e {seen}; do sleep 0.1; done");
    format!("{{ head -c {mib}M /dev/zero; {wait}; }} | tail >/dev/null")
}

/// Waits until the server has a running attempt with a need of at least this, then makes the file.
async fn saw_at_least(fleet: &Fleet, mib: u64, seen: &Path) {
    let mut stats = StatsClient::connect(fleet.server.url()).await.unwrap();
    let most = async || {
        let mut watch = stats.watch(WatchRequest {}).await.unwrap().into_inner();
        let now = watch.message().await.unwrap().unwrap();
        now.running.iter().map(|attempt| attempt.need_peak_bytes).max().unwrap_or_default()
    };
    eventually("the agent sees what a job holds", most, |most| *most >= mib << 20).await;
    fs::write(seen, "").unwrap();
}

/// The address of a server that answers with status and body to what it is asked.
fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
    let respond = move |head: &str| {
        let (status, body) = answer(&head.to_lowercase());
        (status, String::new(), body)
    };
    let (address, _requests) = http::answer_each(respond).unwrap();
    format!("http://{address}")
}

/// A folder with a `node` for which this user's home is `home`, so that nothing is written to the real one; `None` without node.
fn node_of_home(fleet: &Fleet, home: &Path) -> Option<PathBuf> {
    let node = is_here(&["node"]).then(|| found("node").unwrap())?;
    let dir = fleet.dir.path().join("node");
    fs::create_dir_all(&dir).unwrap();
    // less than the step after the job waits for the report
    patient(&home.join(".config"), "8s");
    let home = home.display().to_string();
    // no shell between: it would drop variables such as INPUT_AGENT-URL
    let script = format!(
        "#!{node}\nrequire('os').userInfo = () => ({{ homedir: {home:?} }});\nprocess.argv.splice(1, 1);\n\
         require(require('path').resolve(process.argv[1]));\n"
    );
    fs::write(dir.join("node"), script).unwrap();
    fs::set_permissions(dir.join("node"), fs::Permissions::from_mode(0o755)).unwrap();
    Some(dir)
}

/// A repository whose workflow uses the action, in a folder of its own.
struct Repository {
    dir: PathBuf,
    home: PathBuf,
    node: PathBuf,
}

impl Repository {
    /// `None` where workflows cannot be run.
    fn new(fleet: &Fleet, name: &str, workflow: &str) -> Option<Self> {
        if !is_here(&["act", "node", "git"]) {
            return None;
        }
        let home = fleet.dir.path().join("home");
        let node = node_of_home(fleet, &home)?;
        let dir = fleet.dir.path().join(name);
        let action = dir.join("plimsoll");
        fs::create_dir_all(&action).unwrap();
        fs::create_dir_all(dir.join(".github/workflows")).unwrap();
        for file in ["action.yml", "job.js", "main.js", "post.js"] {
            fs::copy(Path::new(FOLDER).join(file), action.join(file)).unwrap();
        }
        let (server, http) = (fleet.server.url(), fleet.server.http);
        let with = format!(
            "{{ uses: ./plimsoll, with: {{ server: '{server}', agent-url: 'http://{http}/agent' }} }}"
        );
        let workflow = workflow.replace("PLIMSOLL", &with);
        fs::write(dir.join(".github/workflows/build.yml"), workflow).unwrap();
        for words in [
            &["init", "--quiet", "--initial-branch", "main"][..],
            &["remote", "add", "origin", &format!("https://github.com/octo/{name}.git")],
            &["add", "."],
            &["-c", "user.name=a", "-c", "user.email=a@example", "commit", "--quiet", "--message", "one"],
        ] {
            let git = Command::new("git").args(words).current_dir(&dir).status();
            assert!(git.unwrap().success(), "{words:?}");
        }
        Some(Self { dir, home, node })
    }

    /// What runs the workflow.
    fn act(&self) -> Command {
        let mut act = Command::new(found("act").unwrap());
        act.args(["push", "-P", "ubuntu-latest=-self-hosted", "--no-cache-server", "--concurrent-jobs", "1"]);
        act.current_dir(&self.dir).env_clear().env("HOME", &self.home);
        act.env("PATH", format!("{}:{}", self.node.display(), std::env::var_os("PATH").unwrap().display()));
        act
    }

    fn run(&self) -> Output {
        self.act().output().unwrap()
    }
}

/// Whether the programs that run workflows are here.
fn is_here(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| found(program).is_none());
    let required = std::env::var_os("PLIMSOLL_ACT_REQUIRED").is_some();
    assert!(missing.is_none() || !required, "{missing:?} is missing, and PLIMSOLL_ACT_REQUIRED is set");
    if let Some(missing) = missing {
        eprintln!("skipped: {missing} is not installed");
    }
    missing.is_none()
}

/// Runs a step of the action without a runner, with these variables.
fn step(fleet: &Fleet, script: &str, variables: &[(&str, &str)]) -> Output {
    let mut node = Command::new(found("node").unwrap());
    node.arg(Path::new(FOLDER).join(script)).current_dir(fleet.dir.path()).env_clear();
    node.env("PATH", std::env::var_os("PATH").unwrap()).env("GITHUB_STATE", fleet.dir.path().join("state"));
    node.envs(variables.iter().copied()).output().unwrap()
}
