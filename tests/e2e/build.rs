//! The main way with the real agent: a command is measured, predicted and judged; nothing about it changes the command.

use std::{fs, process::Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Agent, Programs, Server, Site, eventually};

/// A command whose `tail` holds about this many MiB of anonymous memory.
fn hold(mib: u32) -> String {
    format!("head -c {mib}M /dev/zero | tail >/dev/null")
}

#[test]
fn a_build_is_measured_and_predicted() {
    let site = Site::start().unwrap();
    for attempt in ["one", "two"] {
        let ran = site.agent.run(&format!("--attempt {attempt} --key package=holder"), &hold(100));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("plimsoll: holder"), "one line at the end: {}", ran.stderr);
    }
    let shown = site.agent.json(&["show", "--attempt", "one"]);
    assert!(shown.to_string().contains("need_peak_bytes"), "{shown}");
    let predicted = site.agent.json(&["predict", "--key", "package=holder"]);
    assert_eq!(predicted["attempts"], 2, "{predicted}");
    let limit = predicted["memory_limit_bytes"]["value"].as_u64().unwrap();
    assert!(limit > 100 << 20, "the command held 100 MiB: {predicted}");
    let stats = site.agent.json(&["stats"]);
    assert_eq!(stats["totals"]["attempts"], 2, "{stats}");
    let lines = site.agent.call(&["predict", "--key", "package=holder", "-o", "env"]).stdout;
    assert!(lines.contains("KUBERNETES_MEMORY_REQUEST="), "{lines}");
}

#[test]
fn exit_code_and_output_are_the_commands() {
    let site = Site::start().unwrap();
    let ran = site.agent.run("--quiet", "echo out; echo err >&2; exit 7");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "out\n", "err\n"));
    // a kill, a real-time signal, and no command at all
    for (script, code) in [("kill -9 $$", 137), ("kill -40 $$", 168), ("exec /nonexistent/command", 127)] {
        let ran = site.agent.run("--quiet", script);
        assert_eq!(ran.code, Some(code), "{script}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offline_build_is_delivered_by_later_runs() {
    let away = Site::start().unwrap().end_server().unwrap();
    let ran = away.agent.run("--attempt early --key package=holder", "exit 3");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("kept"), "it says that the samples are kept: {}", ran.stderr);
    // another server is not what it waits for
    let other = Server::start(Programs::for_tests(), &away.dir.path().join("other")).unwrap();
    let elsewhere = Agent::new(Programs::for_tests(), other.url(), &away.dir.path().join("spool"));
    assert_eq!(elsewhere.call(&["run", "--attempt", "other", "--", "true"]).code, Some(0));
    assert_eq!(elsewhere.call(&["show", "early"]).code, Some(2), "it waits for the first server");
    let site = away.start_server().unwrap();
    delivered_by_a_later_run(&site, "early", "failed").await;
}

/// Waits until later runs have delivered an attempt that was kept, with this end: a run waits a second at most for what others left.
async fn delivered_by_a_later_run(site: &Site, attempt: &str, end: &str) {
    let shown = async || {
        assert_eq!(site.agent.call(&["run", "--", "true"]).code, Some(0));
        site.agent.call(&["show", "--attempt", attempt, "-o", "json"]).stdout
    };
    eventually("the attempt is delivered", shown, |text| text.contains(end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agents_spool_is_delivered_later() {
    let away = Site::start().unwrap().end_server().unwrap();
    let started = away.dir.path().join("started");
    let script = format!("echo $$ > {}; exec sleep 1000", started.display());
    let mut agent = away
        .agent
        .command(&["run", "--attempt", "orphan", "--key", "package=holder", "--", "sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = eventually(
        "the command runs",
        async || fs::read_to_string(&started).unwrap_or_default(),
        |text| text.ends_with('\n'),
    );
    let pid: i32 = pid.await.trim().parse().unwrap();
    let spooled = async || {
        let files = fs::read_dir(away.dir.path().join("spool")).into_iter().flatten().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|end| end == "spool"))
            .map(|file| file.metadata().unwrap().len())
            .sum()
    };
    // Hello and some samples
    let _bytes: u64 = eventually("samples are in the spool", spooled, |bytes| *bytes > 400).await;
    agent.kill().unwrap();
    agent.wait().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let site = away.start_server().unwrap();
    delivered_by_a_later_run(&site, "orphan", "lost").await;
    assert_eq!(site.server.get("/readyz").unwrap().0, 200);
}

#[test]
fn an_oom_killed_child_is_found() {
    let site = Site::start().unwrap();
    let script = format!("{}; exit 2", hold(200));
    let ran = site.agent.run("--attempt killed --key package=holder --limit-memory 64MiB", &script);
    if ran.stderr.contains("without the memory limit") {
        eprintln!("skipped: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let asked = ["should-retry", "--attempt", "killed"];
    let verdict = site.agent.json(&asked);
    assert_eq!((&verdict["cause"], &verdict["action"]), (&"oom".into(), &"bigger".into()), "{verdict}");
    assert_eq!(site.agent.call(&asked).code, Some(0), "0 means retry");
    assert_eq!(site.agent.json(&asked), verdict, "the same question gets the same answer");
    let ran = site.agent.run("--attempt broken --key package=holder", "exit 1");
    assert_eq!(ran.code, Some(1));
    let log = site.dir.path().join("log");
    fs::write(&log, "main.c:3:5: error: 'x' undeclared (first use in this function)\n").unwrap();
    let answer = site.agent.call(&["should-retry", "--attempt", "broken", "--log", log.to_str().unwrap()]);
    assert_eq!(answer.code, Some(10), "10 means do not retry: {answer:?}");
}

#[test]
fn a_mistake_in_the_user_file_is_harmless() {
    let site = Site::start().unwrap();
    let folder = site.dir.path().join("config/plimsoll");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("server = \"{}\"\nsrever = \"http://a\"\n", site.server.url());
    fs::write(folder.join("config.toml"), text).unwrap();
    // a variable that is set to nothing counts as not set
    let agent = Agent::new(Programs::for_tests(), "", &site.dir.path().join("spool"));
    let agent = agent.with("XDG_CONFIG_HOME", site.dir.path().join("config").to_str().unwrap());
    let ran = agent.run("--attempt from-file", "exit 7");
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stderr.contains("config.toml:2: srever is left out: expected one of server, "), "{ran:?}");
    let shown = agent.json(&["show", "--attempt", "from-file"]);
    assert_eq!(shown["summary"]["exit_code"], 7, "{shown}");
}
