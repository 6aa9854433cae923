//! The file that a GitLab pipeline includes: its lines run as GitLab's runner runs them, in each shell that an image may have.

mod ci_local;
mod scripts;
mod with_access;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use plimsoll_tests::{Agent, Programs, Server, assert_has};
use tempfile::TempDir;
use yaml_rust2::YamlLoader;

const INCLUDE: &str = include_str!("../../../deploy/gitlab/plimsoll.gitlab-ci.yml");

/// Shells of images: bash, dash, and busybox's, which alpine has.
const SHELLS: [&[&str]; 4] = [&["bash"], &["bash", "--posix"], &["dash"], &["busybox", "sh"]];

/// What the include puts before the script of each job.
fn before_script() -> String {
    let file = YamlLoader::load_from_str(INCLUDE).unwrap().remove(0);
    file[".plimsoll-measure"]["before_script"][0].as_str().unwrap().to_owned()
}

/// A server that hands out the agent, and a place where jobs run.
pub(crate) struct Fleet {
    pub(crate) dir: TempDir,
    pub(crate) server: Server,
}

impl Fleet {
    /// `None` where nothing can fetch a file.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// With further options of the server.
    pub(crate) fn start_with(options: &[&str]) -> Option<Self> {
        if found("curl").or_else(|| found("wget")).is_none() {
            eprintln!("skipped: there is neither curl nor wget here");
            return None;
        }
        let programs = Programs::for_tests();
        let (dir, agents) = plimsoll_support::temporary::file_name("agents");
        std::fs::create_dir(&agents).unwrap();
        let name = format!("plimsoll-{}", platform());
        // what jobs fetch is small, as in a release
        let stripped = Command::new("strip").arg("-o").arg(agents.join(&name)).arg(&programs.agent).status();
        if !stripped.is_ok_and(|status| status.success()) {
            std::os::unix::fs::symlink(&programs.agent, agents.join(name)).unwrap();
        }
        let options = [&["--agent-dir", agents.to_str().unwrap()], options].concat();
        let server = Server::start_with(programs, &dir.path().join("data"), &options).unwrap();
        Some(Self { dir, server })
    }

    fn checkout(&self) -> PathBuf {
        let checkout = self.dir.path().join("checkout");
        std::fs::create_dir_all(&checkout).unwrap();
        checkout
    }

    /// The job `id`, as the runner runs it: its lines in a shell of their own, which ends with the first that fails.
    fn job(&self, shell: &[&str], id: &str, script: &str, variables: &[(&str, &str)]) -> Output {
        let lines = format!("{}\n{script}\n", before_script()).replace('\'', "'\\''");
        let whole = format!("set -e\n: | eval '{lines}'\nexit 0\n");
        let path = self.dir.path().join(format!("script-{id}"));
        std::fs::write(&path, whole).unwrap();
        let checkout = self.checkout();
        // found before the variables change PATH
        let mut command = Command::new(found(shell[0]).unwrap());
        command
            .args(&shell[1..])
            .args((shell[0] == "bash").then_some("-o"))
            .args((shell[0] == "bash").then_some("pipefail"));
        command.arg(&path).current_dir(&checkout).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("CI_PROJECT_DIR", &checkout).env("CI_JOB_ID", id).env("CI_JOB_NAME", "unit");
        command.env("CI_PROJECT_PATH", "group/app").env("GITLAB_CI", "true").env("CI", "true");
        command.env("PLIMSOLL_SERVER", self.server.url());
        command.env("PLIMSOLL_AGENT_URL", format!("http://{}/agent", self.server.http));
        command.env("PLIMSOLL_SPOOL_DIR", self.dir.path().join(format!("spool-{id}")));
        command.env("XDG_CONFIG_HOME", patient(&self.dir.path().join("config"), "20s"));
        command.envs(variables.iter().copied()).output().unwrap()
    }

    /// The attempt of a job that has ended. Where the shell did not wait for the report, that may be on its way.
    fn shown(&self, id: &str) -> serde_json::Value {
        let agent = Agent::new(Programs::for_tests(), self.server.url(), self.dir.path());
        for _look in 0..600 {
            let answer = agent.call(&["show", "--attempt", id, "-o", "json"]);
            let shown: Option<serde_json::Value> = serde_json::from_str(&answer.stdout).ok();
            let has_ended = |shown: &serde_json::Value| {
                shown["summary"]["outcome"].as_str().is_some_and(|outcome| outcome != "running")
            };
            if let Some(shown) = shown.filter(has_ended) {
                return shown;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        agent.json(&["show", "--attempt", id])
    }
}

/// A folder of configuration in which the agent waits for a slow server longer than by default.
pub(crate) fn patient<'a>(folder: &'a Path, patience: &str) -> &'a Path {
    std::fs::create_dir_all(folder.join("plimsoll")).unwrap();
    std::fs::write(folder.join("plimsoll/config.toml"), format!("patience = {patience:?}\n")).unwrap();
    folder
}

fn platform() -> &'static str {
    if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-amd64" }
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Where a program is, if it is here.
pub(crate) fn found(program: &str) -> Option<String> {
    let output = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_including_job_ends_as_without_it() {
    let Some(fleet) = Fleet::start() else { return };
    for (number, shell) in SHELLS.iter().filter(|shell| found(shell[0]).is_some()).enumerate() {
        for (place, script) in
            ["plimsoll --version || true; sleep 1", "echo one; (exit 3); echo never"].iter().enumerate()
        {
            let id = format!("{number}{place}");
            // bash says 1 for every failure in what the runner evaluates, unless FF_USE_NEW_BASH_EVAL_STRATEGY is set
            let status = fleet.job(shell, "0", script, &[("PLIMSOLL_MEASURE", "off")]).status.code();
            let output = fleet.job(shell, &id, script, &[]);
            let printed = text(&output);
            assert_eq!(output.status.code(), status, "{shell:?}: {printed}");
            assert_eq!(status == Some(0), place == 0, "{shell:?}");
            assert!(!printed.contains("never"), "{shell:?}: {printed}");
            assert_eq!(printed.contains("plimsoll 0."), place == 0, "{shell:?}: {printed}");
            let shown = fleet.shown(&id);
            let exit = shown["summary"]["exit_code"].as_i64();
            assert_eq!(exit, status.map(i64::from), "{shell:?}: {shown} {printed}");
            assert_eq!(shown["summary"]["key"]["project"], "group/app", "{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_only_a_verified_agent() {
    let Some(fleet) = Fleet::start() else { return };
    let (status, sums) = fleet.server.get("/agent/sha256sums").unwrap();
    assert_eq!(status, 200, "{sums}");
    let pins = format!("{} {}", "0".repeat(64), sums.split(' ').next().unwrap());
    // what an earlier job of a shell runner may have left
    let left = fleet.dir.path().join("checkout.tmp/plimsoll");
    std::fs::create_dir_all(&left).unwrap();
    for name in ["make".to_owned(), "plimsoll".to_owned(), format!("plimsoll-{}", platform())] {
        std::fs::write(left.join(&name), "#!/bin/sh\ntouch \"$CI_PROJECT_DIR.ran\"\n").unwrap();
        std::fs::set_permissions(left.join(&name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let elsewhere = format!("http://127.0.0.1.example:{}/agent", fleet.server.http.port());
    for (place, (variable, value, line)) in [
        ("PLIMSOLL_AGENT_SHA256", pins.as_str(), "delivered as 0"),
        ("PLIMSOLL_AGENT_SHA256", "1234", "none of PLIMSOLL_AGENT_SHA256"),
        (
            "PLIMSOLL_AGENT_URL",
            &elsewhere,
            "does not prove that the agent is the right one: set PLIMSOLL_AGENT_SHA256",
        ),
        (
            "PLIMSOLL_AGENT_URL",
            "http://localhost@192.0.2.1/agent",
            "does not prove that the agent is the right one",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let output = fleet.job(&["bash"], &place.to_string(), "make || exit 7", &[(variable, value)]);
        let printed = text(&output);
        assert!(printed.contains(line) && output.status.code() == Some(7), "{value}: {printed}");
    }
    assert!(!fleet.dir.path().join("checkout.ran").try_exists().unwrap(), "what an earlier job left was run");
    assert_eq!(std::fs::read_dir(fleet.checkout()).unwrap().count(), 0, "nothing of ours is in the checkout");
}

fn drip(mut stream: TcpStream) {
    drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"));
    while stream.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A server that takes connections, and sends a byte now and then.
fn slow_server() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drip(stream));
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_leaves_time_for_the_next() {
    let Some(fleet) = Fleet::start() else { return };
    let urls = [slow_server(), format!("http://{}/agent", fleet.server.http), slow_server(), slow_server()];
    let urls = urls.join(",");
    let programs = ["sh", "uname", "mktemp", "mkdir", "mkfifo", "chmod", "mv", "rm", "sleep"];
    for tool in [&["curl"][..], &["wget"], &["busybox", "wget"]] {
        let Some(program) = found(tool[0]) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let bin = image(dir.path(), &programs);
        std::os::unix::fs::symlink(program, Path::new(&bin).join(tool.last().unwrap())).unwrap();
        let output = fleet.job(&["bash"], "77", "true", &[("PATH", &bin), ("PLIMSOLL_AGENT_URL", &urls)]);
        let printed = text(&output);
        assert!(output.status.success() && printed.contains("delivered as 77"), "{tool:?}: {printed}");
        assert!(!printed.contains("Usage"), "{tool:?}: {printed}");
    }
}

/// Asks for the agent, and reads nothing of the answer yet.
fn ask_for_agent(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.http).unwrap();
    let path = platform();
    write!(stream, "GET /agent/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_jobs_all_fetch_the_whole_agent() {
    let Some(fleet) = Fleet::start() else { return };
    // they wait for each other: none is answered to its end before all have begun
    let mut jobs: Vec<TcpStream> = (0..4).map(|_| ask_for_agent(&fleet.server)).collect();
    let mut answers = vec![vec![0; 1024]; jobs.len()];
    for (job, answer) in jobs.iter_mut().zip(&mut answers) {
        job.read_exact(answer).unwrap();
    }
    let agent = fleet.dir.path().join(format!("agents/plimsoll-{}", platform()));
    let agent = std::fs::read(agent).unwrap();
    for (job, answer) in jobs.iter_mut().zip(&mut answers) {
        job.read_to_end(answer).unwrap();
        let (whole, length) = (answer.ends_with(&agent), format!("content-length: {}\r\n", agent.len()));
        assert!(whole, "{} bytes came of {}", answer.len(), agent.len());
        assert!(String::from_utf8_lossy(&answer[..1024]).contains(&length));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_wants_it_leaves_a_link() {
    let Some(fleet) = Fleet::start() else { return };
    let page = format!("http://{}", fleet.server.http);
    let include = YamlLoader::load_from_str(INCLUDE).unwrap().remove(0);
    let name = include[".plimsoll-link"]["artifacts"]["reports"]["annotations"].as_str().unwrap();
    let file = include[".plimsoll-link"]["variables"]["PLIMSOLL_LINK_FILE"].as_str().unwrap();
    let variables = [
        ("PLIMSOLL_PAGE_URL", page.as_str()),
        ("CI_SERVER_HOST", "gitlab.example"),
        ("PLIMSOLL_LINK_FILE", file),
    ];
    let output = fleet.job(&["sh"], "4712", "true", &variables);
    assert!(output.status.success(), "{}", text(&output));
    let file = std::fs::read_to_string(fleet.checkout().join(name)).unwrap();
    let link = &serde_json::from_str::<serde_json::Value>(&file).unwrap()["plimsoll"][0]["external_link"];
    assert_eq!(link["label"], "Plimsoll: what this job used");
    let path = link["url"].as_str().unwrap().strip_prefix(&page).unwrap();
    assert_eq!(path, "/attempts/gitlab.example:4712");
    let (status, html) = fleet.server.get(path).unwrap();
    assert_eq!(status, 200, "{html}");
    assert!(html.contains("https://gitlab.example/group/app/-/jobs/4712"), "{html}");
}

/// A folder with links to these programs, as a small image has them.
fn image(dir: &Path, programs: &[&str]) -> String {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for program in programs {
        std::os::unix::fs::symlink(found(program).unwrap(), bin.join(program)).unwrap();
    }
    bin.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_comes_from_the_first_serving_server() {
    let Some(fleet) = Fleet::start() else { return };
    let (bin, asked) = (PathBuf::from(image(fleet.dir.path(), &[])), fleet.dir.path().join("asked"));
    let agent = Programs::for_tests().agent.display();
    let curl = format!(
        "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" != -o ] || file=$2; shift; done\necho \"$1\" >>{}\n\
         case $1 in http://127.0.0.2:*) cp {agent} \"$file\" ;; *) exit 22 ;; esac\n",
        asked.display()
    );
    std::fs::write(bin.join("curl"), curl).unwrap();
    std::fs::set_permissions(bin.join("curl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let servers = ["http://127.0.0.1:1", "http://127.0.0.2:1", "http://127.0.0.3:1"].join(",");
    let variables = [("PATH", path.as_str()), ("PLIMSOLL_AGENT_URL", ""), ("PLIMSOLL_SERVER", &servers)];
    for shell in SHELLS.iter().filter(|shell| found(shell[0]).is_some()) {
        let output = fleet.job(shell, "9", "exit 5", &variables);
        assert_eq!(output.status.code(), Some(5), "{}", text(&output));
        assert!(text(&output).contains("kept for the next run"), "it was measured: {}", text(&output));
        let urls = std::fs::read_to_string(&asked).unwrap();
        let expected = [1, 2].map(|host| format!("http://127.0.0.{host}:7411/agent/{}", platform()));
        assert_eq!(urls.lines().collect::<Vec<_>>(), expected);
        std::fs::remove_file(&asked).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_prerequisite_never_fails_the_job() {
    let Some(fleet) = Fleet::start() else { return };
    let small = image(fleet.dir.path(), &["uname", "mkdir", "mktemp", "sha256sum", "cut", "rm", "sh"]);
    let address = format!("http://{}", fleet.server.http);
    let elsewhere = format!("{address}/nothing-here");
    for (variables, line) in [
        (vec![("PATH", small.as_str())], "neither curl nor wget"),
        (vec![("PLIMSOLL_AGENT_URL", elsewhere.as_str())], "cannot be fetched from"),
        (vec![("PLIMSOLL_AGENT_URL", "http://127.0.0.1:1/agent")], "cannot be fetched from"),
        (vec![("PLIMSOLL_AGENT_URL", "not a url")], "does not prove that the agent is the right one"),
        (vec![("PLIMSOLL_MEASURE", "off")], ""),
    ] {
        let output = fleet.job(&["bash"], "9", "echo it went on; exit 5", &variables);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(5), "{variables:?}: {printed}");
        assert!(printed.contains(line) && printed.contains("it went on"), "{variables:?}: {printed}");
        let notes = printed.matches("unmeasured").count();
        assert_eq!(notes, usize::from(!line.is_empty()), "{variables:?}: {printed}");
    }
}
