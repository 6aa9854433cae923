//! The agent beside a build that it did not start: it finds it, measures it, and leaves with it.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Site, eventually};
use serde_json::Value;

/// A build that holds this many MiB until its input ends; returned when it holds them.
fn build(mib: u32) -> Child {
    // `tail` keeps all that has no line end; the shell waits, so that it is the build's first process
    let script = format!(
        "{{ head -c {mib}M /dev/zero; echo full >&2; read -r line <&3; }} 3<&0 | tail >/dev/null; exit 3"
    );
    let mut shell = Command::new("sh");
    let mut build = shell.args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    build.stderr.take().unwrap().read_exact(&mut [0; 5]).unwrap();
    build
}

/// Waits until the agent has samples: more than what it says at the beginning.
async fn seen(site: &Site, attempt: &str) {
    let spooled = async || {
        std::fs::read_dir(site.agent.spool()).map_or(0, |files| {
            files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>()
        })
    };
    eventually(&format!("{attempt} has samples"), spooled, |bytes| *bytes > 400).await;
}

fn end(mut agent: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    agent.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (agent.wait().unwrap().code(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_build_is_followed_to_its_end() {
    let site = Site::start().unwrap();
    let mut build = build(60);
    let pid = build.id().to_string();
    let report = site.dir.path().join("report");
    let arguments = ["attach", "--pid", &pid, "--attempt", "beside", "--key", "package=holder"];
    let report_options = ["--report", "text", "--report-file", report.to_str().unwrap()];
    let agent = site
        .agent
        .command(&[arguments.as_slice(), &report_options].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    seen(&site, "beside").await;
    build.stdin.take().unwrap().write_all(b"end\n").unwrap();
    // before its parent waits for it: the end of a build does not depend on that
    let (status, stderr) = end(agent);
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(build.wait().unwrap().code(), Some(3));
    assert!(stderr.contains(&format!("follows process {pid} (sh)")), "{stderr}");
    assert!(stderr.contains("ended (its process ended), exit status not known"), "{stderr}");
    assert!(stderr.contains("samples   delivered as beside"), "a page, as for any other: {stderr}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["followed_until"], "its process ended");
    assert_eq!(report["exit"]["code"], Value::Null);
    let shown = site.agent.json(&["show", "--attempt", "beside"]);
    let text = shown.to_string();
    assert!(text.contains("\"exit_code\":null"), "its exit was not seen: {text}");
    assert_eq!(shown["summary"]["outcome"], "ended", "{text}");
    let need = shown["summary"]["need_peak_bytes"].as_u64().unwrap();
    // the last pipe full may still have been on its way
    assert!((59 << 20..200 << 20).contains(&need), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_delivers_samples_and_spares_the_build() {
    let site = Site::start().unwrap();
    let mut build = build(1);
    let pid = build.id().to_string();
    let arguments = ["attach", "--pid", &pid, "--attempt", "told", "--key", "package=holder"];
    let agent = site.agent.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    seen(&site, "told").await;
    kill(Pid::from_raw(i32::try_from(agent.id()).unwrap()), Signal::SIGTERM).unwrap();
    let (status, stderr) = end(agent);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("SIGTERM") && stderr.contains("delivered as told"), "{stderr}");
    assert!(build.try_wait().unwrap().is_none(), "the build goes on");
    drop(build.stdin.take());
    build.wait().unwrap();
}
