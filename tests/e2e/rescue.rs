//! Rescue with real processes at a real memory limit: a build that would have been killed finishes, and whatever ends the agent, nothing
//! stays paused. The compilers are the program `load`; times are no part of a verdict.

use std::{
    fs,
    io::Write as _,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use nix::{
    pty::openpty,
    sys::signal::{self, Signal},
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

    /// Starts a build of two compilers of which one will be paused, and stays so. Returns the agent and the compilers' ids, which are there
    /// once one is stopped; `None` where no memory limit can be set.
    async fn with_one_paused(&self) -> Option<(Child, [i32; 2])> {
        self.one_paused_by(|agent| agent).await
    }

    /// The same, with the agent started by the command that `starter` makes of its own.
    async fn one_paused_by(&self, starter: impl FnOnce(Command) -> Command) -> Option<(Child, [i32; 2])> {
        let pids = self.file("pids");
        let worker = |number| format!("{LOAD} keep 30 busy 60000 & echo $! > {}.{number}", pids.display());
        let script = format!("{}\n{}\nwait", worker(1), worker(2));
        let options = format!("run --limit-memory 100MiB {PAUSES}");
        let mut agent = self.start(&options, &["--", "sh", "-c", &script], "log", starter);
        let pid = |number: i32| {
            fs::read_to_string(format!("{}.{number}", pids.display())).ok()?.trim().parse().ok()
        };
        let found = async || {
            let both = pid(1).zip(pid(2)).map(|(a, b)| [a, b]);
            (self.log("log").contains("without the memory limit"), both.filter(|both| is_one_paused(*both)))
        };
        let (is_unlimited, both) =
            eventually("a compiler is paused", found, |(unlimited, both)| *unlimited || both.is_some()).await;
        if is_unlimited {
            // its compilers end after a minute
            kill(&mut agent, []);
            return None;
        }
        both.map(|both| (agent, both))
    }

    /// Starts the agent with these options, which hold no blanks, and more arguments, by what `starter` makes of its command; its log goes to
    /// a file.
    fn start(
        &self,
        options: &str,
        more: &[&str],
        log: &str,
        starter: impl FnOnce(Command) -> Command,
    ) -> Child {
        let arguments: Vec<&str> = options.split(' ').chain(more.iter().copied()).collect();
        let log = fs::File::create(self.file(log)).unwrap();
        starter(self.agent.command(&arguments)).stderr(Stdio::from(log)).spawn().unwrap()
    }

    /// Whether the agent's list of paused processes is there.
    fn has_list(&self) -> bool {
        let mut spool = fs::read_dir(self.agent.spool()).unwrap().map(|file| file.unwrap().file_name());
        spool.any(|name| name.to_string_lossy().starts_with("paused-"))
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }
}

/// A field of a process's `stat`, counted from its state on; `X` if it has ended.
fn stat(pid: i32, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_name, fields)| fields);
    fields.split(' ').nth(field).filter(|text| !text.is_empty()).unwrap_or("X").to_owned()
}

fn is_one_paused(pids: [i32; 2]) -> bool {
    pids.iter().any(|pid| stat(*pid, 0) == "T")
}

fn send(pid: i32, signal: Signal) {
    let _ended = signal::kill(Pid::from_raw(pid), signal);
}

/// Ends an agent and processes of its build.
fn kill(agent: &mut Child, pids: impl IntoIterator<Item = i32>) {
    agent.kill().unwrap();
    agent.wait().unwrap();
    for pid in pids {
        send(pid, Signal::SIGKILL);
    }
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
    let Some((ran, report)) = place.run(&format!("--limit-memory 1GiB {PAUSES}"), &crowd()) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("pause"), "{}", ran.stderr);
    assert!(report["rescue"].is_null(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_paused_when_the_agent_is_killed_or_stuck() {
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let place = Place::new();
        let Some((mut agent, pids)) = place.with_one_paused().await else { return };
        send(agent.id().cast_signed(), signal);
        eventually("both run", async || is_one_paused(pids), |is_paused| !is_paused).await;
        kill(&mut agent, pids);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_build_ends_when_asked() {
    let place = Place::new();
    let Some((mut agent, pids)) = place.with_one_paused().await else { return };
    // the compiler that is paused gets it too, as by a runner's cancel
    for pid in pids.into_iter().chain([agent.id().cast_signed()]) {
        send(pid, Signal::SIGTERM);
    }
    let states = async || pids.map(|pid| stat(pid, 0));
    eventually("both have ended", states, |states| states.iter().all(|state| "XZ".contains(state))).await;
    agent.wait().unwrap();
    assert!(!place.has_list());
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_goes_on_after_ctrl_z() {
    let place = Place::new();
    let ends = openpty(None, None).unwrap();
    let mut keyboard = fs::File::from(ends.master);
    let Some((mut shell, pids)) = place.one_paused_by(|agent| with_job_control(&agent, ends.slave)).await
    else {
        return;
    };
    let agent = stat(stat(pids[0], 1).parse().unwrap(), 1).parse().unwrap();
    // CPU time outside the kernel, clock ticks
    let worked = || pids.map(|pid| stat(pid, 11).parse::<u64>().unwrap());
    let before = worked();
    let has_paused = || pids.map(|pid| stat(pid, 0) == "T");
    let was_paused = has_paused();
    // Ctrl-Z
    keyboard.write_all(&[26]).unwrap();
    let stopped = async || (stat(agent, 0), has_paused().map(|is_stopped| !is_stopped), worked());
    eventually("the job stops, and what was paused goes on", stopped, |(agent, runs, now)| {
        agent == "T" && *runs == was_paused && (0..2).all(|n| !runs[n] || now[n] > before[n])
    })
    .await;
    assert!(!place.has_list(), "the agent keeps nothing paused");
    // the shell calls `fg`
    keyboard.write_all(b"\n").unwrap();
    let again = async || (place.has_list(), stat(agent, 0), has_paused());
    eventually("one is paused again", again, |(has_list, agent, paused)| {
        *has_list && agent != "T" && paused[0] != paused[1]
    })
    .await;
    send(agent, Signal::SIGKILL);
    kill(&mut shell, pids);
}

/// A shell on this terminal that starts the agent as a job, and continues it by `fg` after a line of input.
fn with_job_control(agent: &Command, terminal: OwnedFd) -> Command {
    let script = r#"exec 3>&2 2>&1; set -m; "$0" "$@" 2>&3; read -r line; fg"#;
    let mut shell = Command::new("setsid");
    shell.args(["--ctty", "bash", "-c", script]).arg(agent.get_program()).args(agent.get_args());
    shell.env_clear().envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(terminal.try_clone().unwrap()).stdout(terminal);
    shell
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_on_a_build_only_watches() {
    let place = Place::new();
    let Some((mut agent, pids)) = place.with_one_paused().await else { return };
    let mut second =
        place.start(&format!("attach {PAUSES} --pid"), &[&stat(pids[0], 1)], "second", |agent| agent);
    let refusal = "rescue pauses nothing: another agent may pause this build";
    eventually("it says so", async || place.log("second"), |log| log.contains(refusal)).await;
    assert!(is_one_paused(pids), "it leaves what the first one has paused");
    kill(&mut second, []);
    kill(&mut agent, pids);
}

#[test]
fn forks_and_threads_are_no_compilers() {
    let place = Place::new();
    let compiler = place.file("cc1plus");
    std::os::unix::fs::symlink(LOAD, &compiler).unwrap();
    // some 1,000 forks a second
    let script = format!(
        "{0} threads 200 keep 30 busy 4000 & one=$!; {0} threads 200 keep 30 busy 4000 & two=$!
         i=0; while [ $i -lt 3000 ]; do (:); i=$((i+1)); done; wait $one && wait $two",
        compiler.display()
    );
    let Some((ran, report)) = place.run(&format!("--limit-memory 100MiB {PAUSES}"), &script) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(report["totals"]["compilers_peak"], 2, "{report}");
    // one of the two, and once more for each time that a slow machine lets the other one do nothing
    assert!((1..=3).contains(&report["rescue"]["pauses"].as_u64().unwrap()), "{report}");
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
