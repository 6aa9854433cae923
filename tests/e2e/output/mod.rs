//! The agent reads the build's output, and the build does not feel it; what is found out is said at the end.

mod terminal;

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_support::collector::{CollectorFaults, FakeCollector};
use plimsoll_tests::{Agent, Programs, Site, assert_has, eventually};

use crate::tools::has_script;

/// Bytes of each stream that must come through unchanged.
const STREAM_BYTES: u64 = 8 << 20;

/// Words for `plimsoll run` with a shell script, whose output is read.
fn read(script: &str) -> Vec<&str> {
    vec!["run", "--phases", "gitlab,spack", "--quiet", "--", "sh", "-c", script]
}

fn random_file(path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    fs::File::open("/dev/urandom").unwrap().take(STREAM_BYTES).read_to_end(&mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
    path.to_owned()
}

#[test]
fn every_byte_of_both_streams_comes_through_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (out, err) = (random_file(&dir.path().join("out")), random_file(&dir.path().join("err")));
    let script = format!("cat {} & cat {} >&2; wait", out.display(), err.display());
    let ended = Agent::alone(dir.path()).command(&read(&script)).output().unwrap();
    assert!(ended.status.success());
    assert!(ended.stdout == fs::read(out).unwrap(), "stdout is not what the command wrote");
    assert!(ended.stderr == fs::read(err).unwrap(), "stderr is not what the command wrote");
}

#[test]
fn two_streams_that_are_one_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let both = dir.path().join("both");
    let file = fs::File::create(&both).unwrap();
    let agent = Agent::alone(dir.path());
    let mut command = agent.command(&read(script));
    let status = command.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
    assert!(status.success());
    let expected: String = (0..500).flat_map(|i| [format!("out {i}\n"), format!("err {i}\n")]).collect();
    assert_eq!(fs::read_to_string(both).unwrap(), expected);
}

#[test]
fn output_comes_through_before_a_line_ends() {
    let (dir, gate) = plimsoll_support::temporary::file_name("gate");
    let script = format!("printf 'no line end'; until [ -e {} ]; do sleep 0.02; done", gate.display());
    let mut child = Agent::alone(dir.path()).command(&read(&script)).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = [0; 11];
    child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"no line end");
    fs::write(gate, "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_departed_reader_ends_the_build_with_sigpipe() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Agent::alone(dir.path())
        .command(&["run", "--phases", "gitlab", "--quiet", "--", "yes"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(128 + Signal::SIGPIPE as i32));
}

#[tokio::test]
async fn a_daemon_holding_the_stream_is_not_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let answer = Agent::alone(dir.path()).call(&read("sleep 1000 & echo $!; exit 5"));
    kill(Pid::from_raw(answer.stdout.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(answer.code, Some(5));
    // nor one that writes all the time
    let answer = Agent::alone(dir.path()).call(&read("yes >&2 & echo $!"));
    assert_eq!(answer.code, Some(0));
    let pid = Pid::from_raw(answer.stdout.trim().parse().unwrap());
    let writes = async || fs::read_link(format!("/proc/{pid}/fd/2")).ok();
    eventually("it ends by itself, as it has lost its reader", writes, Option::is_none).await;
}

#[test]
fn output_redirected_through_a_pipe_comes_through() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkfifo f; { sleep 0.1; cat f; } & exec >f; echo through; exec >&-; wait";
    let mut command = Agent::alone(dir.path()).command(&read(script));
    let ended = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "through\n");
}

#[test]
fn closed_streams_and_signals_pass_through() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::alone(dir.path());
    assert_eq!(agent.call(&read("exec >&- 2>&-; sleep 0.1; exit 6")).code, Some(6));
    assert_eq!(agent.call(&read("kill -9 $$")).code, Some(137));
    assert_eq!(agent.call(&["run", "--phases", "gitlab", "--", "/nonexistent"]).code, Some(127));
}

/// A build with nested sections, phases of Spack and of a pattern.
const PHASES: &str = r#"
    start() { printf '\033[0Ksection_start:1:%s\r\033[0KHeader\n' $1; }
    end() { printf '\033[0Ksection_end:1:%s\r\033[0K\n' $1; }
    start setup; start fetch; end fetch; end setup
    echo "==> zlib: Executing phase: 'edit'"; head -c 60M /dev/zero | tail >/dev/null
    echo "==> zlib: Successfully installed zlib-1.3"
    echo "Entering tests" >&2"#;
const NAMES: [&str; 5] = ["setup", "fetch", "setup", "zlib: edit", "tests"];

#[tokio::test(flavor = "multi_thread")]
async fn phases_reach_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let collector = FakeCollector::start(CollectorFaults::default()).await;
    let run = ["run", "--phase-pattern", "^Entering (.+)$", "--key", "package=zlib", "--attempt"];
    let agent = Agent::new(Programs::for_tests(), &collector.url, &dir.path().join("spool"));
    let call = |attempt: &str, patience: &str| {
        agent.call(&[&run[..], &[attempt, "--patience", patience, "--", "sh", "-c", PHASES]].concat())
    };
    let ran = call("direct", "1min");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // the other way: kept on disk first, delivered by a later run
    assert_eq!(call("kept", "0s").code, Some(0));
    assert_eq!(call("later", "1min").code, Some(0));
    // a run waits a second at most for what an earlier one left
    let is_there = async || {
        let is_there = collector.attempt("kept").finish.is_some();
        is_there || call("another", "1min").code.is_none()
    };
    eventually("the kept one is delivered", is_there, |there| *there).await;
    for attempt in ["direct", "kept", "later"] {
        let phases = collector.finish(attempt).phases;
        assert_eq!(phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), NAMES, "{attempt}");
        let end = |phase: &plimsoll_proto::v1::Phase| phase.started_ms + phase.wall_ms;
        assert!(phases.windows(2).all(|two| end(&two[0]) <= two[1].started_ms), "{phases:?}");
    }
}

#[test]
fn in_gitlab_the_report_is_folded_with_advice() {
    let Site { dir, server: _server, agent, .. } = Site::start().unwrap();
    let job =
        agent.with("CI", "true").with("GITLAB_CI", "true").with("CI_JOB_ID", "7").with("LANG", "C.UTF-8");
    let file = dir.path().join("report.json");
    let report = format!("text,json={}", file.display());
    let run = ["run", "--patience", "1min", "--report", &report, "--key", "package=zlib", "--", "sh", "-c"];
    let ran = job.call(&[&run[..], &[PHASES]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = ran.stderr;
    let folded =
        page.contains("section_start:") && page.contains(":plimsoll[collapsed=true]\r\x1b[0Kplimsoll: zlib");
    assert!(folded && page.trim_end().ends_with(":plimsoll\r\x1b[0K"), "{page}");
    let parts = ["needed ", "zlib: edit", "delivered as 7", "next run  memory request", "confidence  "];
    assert_has(&page, parts);
    let text = fs::read_to_string(&file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["attempt"], &json["delivery"]["delivered"]), (&"7".into(), &true.into()), "{text}");
    assert_eq!(json["phases"][0]["name"], "setup", "{text}");
    assert!(json["prediction"]["memory_request_bytes"]["value"].is_u64(), "{text}");
    assert!(json["verdict"].is_null(), "{text}");
    let failed = job.run("--patience 1min --attempt 8", "exit 3");
    assert_eq!(failed.code, Some(3), "{failed:?}");
    assert!(failed.stderr.contains("\n  verdict   "), "{}", failed.stderr);
}

#[test]
fn an_unwritable_report_does_not_fail_the_build() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Agent::alone(dir.path())
        .with("PLIMSOLL_REPORT_FILE", "/nonexistent/report")
        .call(&["run", "--", "true"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("cannot write the report to /nonexistent/report: No such file"), "{ran:?}");
}

#[test]
fn a_page_without_a_server_mentions_it() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Agent::alone(dir.path()).with("PLIMSOLL_REPORT", "text").call(&["run", "--", "sleep", "0.1"]);
    assert!(ran.stderr.contains("without history") && ran.stderr.is_ascii(), "{ran:?}");
}

/// Runs a script in a shell on a terminal of its own, with what is typed; gives what it shows. `None` without script(1).
fn on_a_terminal(dir: &Path, script: &str) -> Option<Command> {
    if !has_script() {
        return None;
    }
    let file = dir.join("script.sh");
    fs::write(&file, script).unwrap();
    // a shell cannot trap a signal that was ignored before it, as those of the keyboard are in what a script runs in the background
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", "script"]);
    command.args(["-qec", &format!("sh {}", file.display()), "/dev/null"]);
    command.env("SHELL", "/bin/sh").env("P", &Programs::for_tests().agent).env("PLIMSOLL_SERVER", "none");
    command.env_remove("CI").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Some(command)
}
