//! Rescue with real processes at a real memory limit: a build that would have been killed finishes, and whatever ends the agent, nothing
//! stays paused. The compilers are the program `load`; times are no part of a verdict.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Agent, Answer, eventually};
use tempfile::TempDir;

const LOAD: &str = env!("CARGO_BIN_EXE_load");
const PAUSES: &str = "--rescue pause --rescue-programs load";

/// Eight jobs at once that ramp up to 40 MiB, as `make -j8` starts them.
fn crowd() -> String {
    format!(
        "for j in 1 2 3 4 5 6 7 8; do {LOAD} ramp 40 4000 & all=\"$all $!\"; done
         for j in $all; do wait $j || code=9; done; exit ${{code:-0}}"
    )
}

/// An agent without a server, whose report is a file.
struct Place {
    dir: TempDir,
    agent: Agent,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { agent: Agent::alone(dir.path()), dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a script; `None` where no memory limit can be set.
    fn run(&self, options: &str, script: &str) -> Option<(Answer, serde_json::Value)> {
        let report = self.file("report");
        let options = format!("{options} --report json={}", report.display());
        let ran = self.agent.run(&options, script);
        if ran.stderr.contains("without the memory limit") {
            eprintln!("skipped: {}", ran.stderr);
            return None;
        }
        Some((ran, serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap()))
    }

    /// Starts a build of two compilers of which one will be paused. Returns the agent and the compilers' ids, which are there once one is
    /// stopped; `None` where no memory limit can be set.
    async fn with_one_paused(&self) -> Option<(Child, [i32; 2])> {
        let pids = self.file("pids");
        let worker = |number| {
            format!("{LOAD} ramp 60 3000 sleep 0 busy 60000 & echo $! > {}.{number}", pids.display())
        };
        let script = format!("{}\n{}\nwait", worker(1), worker(2));
        let options: Vec<&str> = PAUSES.split(' ').collect();
        let arguments =
            [&["run", "--limit-memory", "100MiB"], &options[..], &["--", "sh", "-c", &script]].concat();
        let log = fs::File::create(self.file("log")).unwrap();
        let mut agent = self.agent.command(&arguments).stderr(Stdio::from(log)).spawn().unwrap();
        let pid = |number: i32| {
            fs::read_to_string(format!("{}.{number}", pids.display())).ok()?.trim().parse().ok()
        };
        let found = async || {
            let log = fs::read_to_string(self.file("log")).unwrap();
            let both = pid(1).zip(pid(2)).map(|(a, b)| [a, b]);
            let is_paused = both.is_some_and(|both| both.iter().any(|pid| state(*pid) == 'T'));
            (log.contains("without the memory limit"), both.filter(|_| is_paused))
        };
        let (is_unlimited, both) =
            eventually("a compiler is paused", found, |(unlimited, both)| *unlimited || both.is_some()).await;
        if is_unlimited {
            // its compilers end after a minute
            agent.kill().unwrap();
            agent.wait().unwrap();
            return None;
        }
        both.map(|both| (agent, both))
    }
}

/// The state of a process, as `stat` spells it; `X` if it has ended.
fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next()).unwrap_or('X')
}

#[test]
fn a_crowded_build_finishes_by_pausing() {
    let place = Place::new();
    let Some((without, _)) = place.run("--limit-memory 240MiB", &crowd()) else { return };
    assert_eq!(without.code, Some(9), "the kernel kills some of them: {}", without.stderr);
    let (watched, report) =
        place.run("--limit-memory 240MiB --rescue watch --rescue-programs load", &crowd()).unwrap();
    assert!(watched.stderr.contains("--rescue pause would have paused"), "{}", watched.stderr);
    assert_eq!(watched.code, Some(9), "it only watches: {report}");
    let (ran, report) = place.run(&format!("--limit-memory 240MiB {PAUSES}"), &crowd()).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("rescue pauses"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("the kernel killed"), "{}: {report}", ran.stderr);
}

#[test]
fn nothing_is_paused_where_memory_is_enough() {
    let place = Place::new();
    let Some((ran, _)) = place.run(&format!("--limit-memory 1GiB {PAUSES}"), &crowd()) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("pause"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_paused_when_the_agent_is_killed() {
    let place = Place::new();
    let Some((mut agent, pids)) = place.with_one_paused().await else { return };
    agent.kill().unwrap();
    agent.wait().unwrap();
    let states = async || pids.map(state);
    eventually("both run", states, |states| !states.contains(&'T')).await;
    for pid in pids {
        let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_build_ends_when_asked() {
    let place = Place::new();
    let Some((mut agent, pids)) = place.with_one_paused().await else { return };
    // the compiler that is paused gets it too, as by a runner's cancel
    for pid in pids.into_iter().chain([agent.id().cast_signed()]) {
        let _sent = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    let states = async || pids.map(state);
    eventually("both have ended", states, |states| states.iter().all(|state| "XZ".contains(*state))).await;
    agent.wait().unwrap();
    assert_eq!(
        fs::read_dir(place.agent.spool())
            .unwrap()
            .filter(|file| { file.as_ref().unwrap().file_name().to_string_lossy().starts_with("paused-") })
            .count(),
        0
    );
}

#[test]
fn watched_and_stopped_processes_are_left_alone() {
    let place = Place::new();
    let job = |before: &str, after: &str| {
        format!(
            "{before} {LOAD} ramp 60 1500 & one=$!; {after}\n{before} {LOAD} ramp 60 1500 & wait $!; wait $one"
        )
    };
    // below `timeout`; a job of a shell with job control; one that is another program by its file
    for script in [
        job("timeout 100", ""),
        format!("bash -c 'set -m; {}'", job("", "")),
        format!(
            "cp {LOAD} {0}/other; ln -s other {0}/load; {1}",
            place.dir.path().display(),
            job("", "").replace(LOAD, &place.file("load").display().to_string())
        ),
    ] {
        let Some((ran, _)) = place.run(&format!("--limit-memory 100MiB {PAUSES}"), &script) else { return };
        assert!(!ran.stderr.contains("rescue pauses"), "{script}: {}", ran.stderr);
    }
}
