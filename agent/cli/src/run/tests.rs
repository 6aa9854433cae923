//! The whole run, in a process of its own: this test program again, as the agent.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::{
        signal::{SigSet, SigmaskHow, Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use plimsoll_client::{delivery, trust::Trust};

use plimsoll_proto::v1::{Key, Resources};
use plimsoll_support::patience::eventually;
use rustix::process::{Signal as AnySignal, kill_process, kill_process_group};
use rustix_libc_wrappers::process::SignalExt as _;

use super::*;
use crate::{job_summary, output::PHASE_TOOLS};

const SCRIPT: &str = "PLIMSOLL_TEST_SCRIPT";
const LIMIT: &str = "PLIMSOLL_TEST_LIMIT";
const MARKS: &str = "PLIMSOLL_TEST_MARKS";
const ROOT: &str = "PLIMSOLL_TEST_ROOT";

/// Not a test: what [`agent`] starts.
#[test]
#[ignore = "the agent of the other tests"]
#[expect(clippy::exit, reason = "the exit code is what is tested")]
fn agent_process() {
    let variable = |name| std::env::var_os(name).map(|value| value.into_string().unwrap());
    let Some(script) = variable(SCRIPT) else { return };
    // the other threads of this program were started with the signals blocked; the agent's own starts as usual
    let mut usual = SigSet::thread_get_mask().unwrap();
    usual = if usual.contains(Signal::SIGTERM) { SigSet::empty() } else { usual };
    usual.thread_set_mask().unwrap();
    let command = match script.strip_prefix("exec ") {
        Some(words) => words.split(' ').map(OsString::from).collect(),
        None => ["/bin/sh", "-c", &script].map(OsString::from).to_vec(),
    };
    let settings = Settings {
        command,
        attempt: attempt::Settings {
            id: None,
            key: Key { package: "zlib".to_owned(), ..Key::default() },
            number: 1,
            retries: String::new(),
            pool: String::new(),
            ticket: String::new(),
            runner_tags: Vec::new(),
            asked: Resources::default(),
            interval: Duration::from_secs(1),
            delivery: delivery::Settings {
                server: None,
                trust: Trust::default(),
                spool_dir: PathBuf::new(),
                spool_bytes: 0,
            },
            patience: Duration::ZERO,
            report: job_summary::Settings::default(),
        },
        limit_memory: variable(LIMIT).map(|bytes| bytes.parse().unwrap()),
        secrets: Secrets::default(),
        acting: VerdictActions::default(),
        marks: variable(MARKS)
            .map(|_set| PhaseMarks { tools: vec![&PHASE_TOOLS[0]], ..PhaseMarks::default() }),
    };
    let kernel = Kernel::at(variable(ROOT).unwrap_or_else(|| "/".to_owned()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = runtime.block_on(run_on(&kernel, settings));
    std::process::exit(code.into());
}

/// The agent with a shell script, or with `exec` and the words of a command.
fn agent(script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "run::tests::agent_process", "--ignored", "--nocapture", "--quiet"]);
    command.env(SCRIPT, script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts with the signals blocked, so that no thread of the test harness takes one that is meant for the agent.
fn spawn(command: &mut Command) -> Child {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap();
    let child = command.spawn();
    before.thread_set_mask().unwrap();
    child.unwrap()
}

fn run_agent(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = spawn(command).wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or(0));
    (code, text(stdout), text(stderr))
}

/// Whether the agent can make groups here. If not, the test that asks proves nothing.
fn owns_groups() -> bool {
    let (_code, stdout, _stderr) = run_agent(&mut agent("cat /proc/self/cgroup"));
    let owns = stdout.contains("plimsoll-");
    if !owns {
        println!("skipped: no cgroup can be made here");
    }
    owns
}

/// The folder of the memory group that the script printed with `cat /proc/self/cgroup`.
fn memory_group(stdout: &str) -> PathBuf {
    let line = stdout.lines().find(|line| line.contains("plimsoll-") && !line.contains("cpuacct")).unwrap();
    let path = line.splitn(3, ':').last().unwrap();
    let mount = if line.contains(":memory:") { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
    PathBuf::from(format!("{mount}{path}"))
}

/// The number of MiB before `with page cache` in the closing line.
fn with_page_cache(stderr: &str) -> f64 {
    let (before, _after) = stderr.split_once(" with page cache").expect("page cache");
    let size = before.rsplit(", ").next().unwrap();
    mebibytes(&format!("size {size} "), "size")
}

/// The number of MiB after `word` in the closing line.
fn mebibytes(stderr: &str, word: &str) -> f64 {
    let (_before, after) =
        stderr.split_once(&format!("{word} ")).unwrap_or_else(|| panic!("no {word} in {stderr}"));
    let mut words = after.split([' ', ',']);
    let number: f64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "B" => number / 1024.0 / 1024.0,
        "KiB" => number / 1024.0,
        "MiB" => number,
        unit => panic!("{unit} in {stderr}"),
    }
}

/// A pipe that holds no more, and its reader.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn a_stderr_without_a_reader_does_not_hold_the_end() {
    let (reader, writer) = full_pipe();
    assert_eq!(run_agent(agent("exit 5").stderr(writer)).0, 5);
    drop(reader);
}

#[test]
fn one_signal_is_enough_where_the_output_has_no_reader() {
    let script =
        "trap 'exit 3' TERM; head -c 1000000 /dev/zero & echo ready >&2; while :; do sleep 0.05; done";
    let mut child = spawn(agent(script).env(MARKS, "1"));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// Not a test: the witness of the agents.
#[test]
#[ignore = "the witness of the other tests"]
fn witness_process() {
    witness::serve();
}

/// Starts the agent as the leader of a process group, and reads its standard output up to the line `ready`.
fn in_own_group(script: &str) -> (Child, Pid, impl Iterator<Item = String>, KilledGroup) {
    let mut child = spawn(agent(script).process_group(0).stderr(Stdio::null()));
    let pid = Pid::from_raw(child.id().cast_signed());
    let group = KilledGroup(pid);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));
    (child, pid, lines, group)
}

/// A loop that ends with this test program, however that ends.
fn while_tested() -> String {
    format!("while [ -d /proc/{} ]; do sleep 0.02; done", std::process::id())
}

/// Kills a process group at the end of a test, also of one that fails.
struct KilledGroup(Pid);

impl Drop for KilledGroup {
    fn drop(&mut self) {
        let _gone = killpg(self.0, Signal::SIGKILL);
    }
}

/// Sends a signal by its number to a process, or to its group.
fn send(number: i32, to: Pid, to_group: bool) {
    let (signal, to) =
        (AnySignal::from_raw(number).unwrap(), rustix::process::Pid::from_raw(to.as_raw()).unwrap());
    if to_group { kill_process_group(to, signal) } else { kill_process(to, signal) }.unwrap();
}

#[test]
fn each_signal_reaches_the_build_once() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    // not KILL, CHLD, STOP and those of libc; what this test ignores, no shell can trap, and what stops would stop `sleep`
    let is_sent = |number: &i32| {
        ![9, 17, 19, 20, 21, 22, 32, 33].contains(number) && mask(&status, "SigIgn") >> (number - 1) & 1 == 0
    };
    let numbers: Vec<i32> = (1..=64).filter(is_sent).collect();
    let traps: Vec<_> = numbers.iter().map(|number| format!("trap 'echo got {number}' {number}; ")).collect();
    let script = format!("ulimit -c 0; {} echo ready; {}", traps.concat(), while_tested());
    for to_group in [false, true] {
        let (mut child, agent, mut lines, _group) = in_own_group(&script);
        // the last one shows that none came twice before it
        for number in numbers.iter().chain([&10]) {
            send(*number, agent, to_group);
            assert_eq!(lines.next().unwrap(), format!("got {number}"), "to its group: {to_group}");
        }
        killpg(agent, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert_eq!(lines.next(), None, "the build ends with its group");
    }
}

/// Waits until a process is stopped, or not any more: the kernel marks it some time after the signal was sent.
fn wait_until(process: &str, stopped: bool) {
    let is_stopped = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        status.contains("T (stopped)")
    };
    let came = (0..6000).any(|_look| {
        std::thread::sleep(Duration::from_millis(10));
        is_stopped() == stopped
    });
    assert!(came, "stopped: {stopped}");
}

#[test]
fn the_agent_stops_and_continues_with_the_build() {
    // no process begins in the loop: a shell that is stopped in the middle of vfork stays behind
    let tested = std::process::id();
    let script = format!(
        "trap 'exit 3' USR1; echo ready; echo $$; sleep 600 & while [ -d /proc/{tested} ]; do wait $!; done"
    );
    for to_group in [false, true] {
        let (mut child, agent, mut lines, _group) = in_own_group(&script);
        let build = lines.next().unwrap();
        for _time in 0..2 {
            send(20, agent, to_group);
            let stopped = waitpid(agent, Some(WaitPidFlag::WUNTRACED)).unwrap();
            assert_eq!(stopped, WaitStatus::Stopped(agent, Signal::SIGTSTP), "to its group: {to_group}");
            wait_until(&build, true);
            send(18, agent, to_group);
            wait_until(&build, false);
        }
        kill(agent, Signal::SIGUSR1).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn a_blocked_child_signal_hides_no_end() {
    let agent = agent("sleep 0.5; exit 3");
    let command: Vec<OsString> =
        std::iter::once(agent.get_program()).chain(agent.get_args()).map(OsString::from).collect();
    let variables = agent.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
    let blocked = SigSet::from(Signal::SIGCHLD);
    let pid = command::start(&command, &variables.collect::<Vec<_>>(), &blocked, None).unwrap();
    assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Exited(pid, 3));
}

#[test]
fn a_build_does_not_get_the_agents_token() {
    let script = "echo \"[$PLIMSOLL_TOKEN] [$PLIMSOLL_TOKEN_FILE]\"";
    let mut agent = agent(script);
    let (_code, stdout, _stderr) =
        run_agent(agent.env("PLIMSOLL_TOKEN", "secret").env("PLIMSOLL_TOKEN_FILE", "/file"));
    assert!(stdout.contains("[] [/file]"), "{stdout}");
}

#[test]
fn a_command_that_cannot_run_is_127_or_126_and_leaves_nothing() {
    let (code, _stdout, stderr) = run_agent(&mut agent("exec no-such-command-here -x"));
    assert_eq!(code, 127);
    assert!(stderr.contains("cannot run 'no-such-command-here': No such file"), "{stderr}");
    assert_eq!(run_agent(&mut agent("exec /etc/passwd")).0, 126);
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_under_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bin/plain-script");
    for (folder, text) in [("bin", "exit \"$1\"\n"), ("dir/plain-script", ""), ("off", "exit 9\n")] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join("plain-script"), text).unwrap();
    }
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let absolute = path.parent().unwrap().display();
    for (name, search, folder) in [
        (path.to_str().unwrap(), "/bin", "."),
        ("plain-script", &*format!("/bin:{absolute}"), "."),
        ("plain-script", "none:dir:off:bin:/bin", "."),
        ("plain-script", "/bin:", "bin"),
    ] {
        let mut agent = agent(&format!("exec {name} 5"));
        agent.env("PATH", search).current_dir(dir.path().join(folder));
        assert_eq!(run_agent(&mut agent).0, 5, "{name} in {search}");
    }
}

/// A mask of signals, as `/proc/PID/status` has it.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
}

fn is_ignored(status: &str, signal: Signal) -> bool {
    mask(status, "SigIgn") >> (signal as u32 - 1) & 1 == 1
}

#[test]
fn the_command_starts_with_the_signals_that_the_agent_was_started_with() {
    let (_code, stdout, _stderr) = run_agent(&mut agent("exec cat /proc/self/status"));
    assert_eq!(mask(&stdout, "SigBlk"), 0);
    assert!(!is_ignored(&stdout, Signal::SIGPIPE), "SIGPIPE ends a pipe of programs");
    let (code, ..) = run_agent(&mut agent("set -e; yes | head -n 1 >/dev/null"));
    assert_eq!(code, 0);
}

#[test]
fn a_key_on_the_terminal_reaches_the_command_once() {
    if Command::new("script").arg("--version").output().is_err() {
        return println!("skipped: no script(1) to make a terminal");
    }
    if is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap(), Signal::SIGINT) {
        return println!(
            "skipped: INT is ignored here, as by what a shell puts behind itself, and no shell can trap it then"
        );
    }
    // the agent passes USR1 on, and would have passed INT on before: it reads the lower number first
    let count = "trap 'n=$((n+1)); kill -USR1 $PPID' INT; trap 'echo count $n; exit 0' USR1; echo ready; \
        while :; do sleep 0.05; done";
    let agent = agent(count);
    let words: Vec<_> = agent.get_args().map(|word| word.to_str().unwrap()).collect();
    let line = format!("exec {} {}", agent.get_program().display(), words.join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env(SCRIPT, count);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // blocked in the harness as for the others, but script(1) itself needs none of them
    let mut child = spawn(&mut terminal);
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(stdout.any(|line| line.trim_end().ends_with("ready")));
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let seen = stdout.find(|line| line.contains("count ")).unwrap();
    assert!(seen.trim_end().ends_with("count 1"), "{seen}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn memory_that_a_build_holds_is_its_need() {
    if !owns_groups() {
        return;
    }
    // tail keeps everything, because there is no end of line; it holds it for several samples
    let script = "{ head -c 209715200 /dev/zero; sleep 1; } | tail >/dev/null";
    let (code, _stdout, stderr) = run_agent(&mut agent(script));
    assert_eq!(code, 0);
    assert!(!stderr.contains("cgroup"), "the witness is no part of the build: {stderr}");
    let need = mebibytes(&stderr, "needed");
    assert!((200.0..230.0).contains(&need), "{stderr}");
    assert!(with_page_cache(&stderr) >= need - 1.0, "{stderr}");
}

#[test]
fn the_group_is_gone_after_the_run_and_the_agent_was_not_in_it() {
    if !owns_groups() {
        return;
    }
    let script = "cat /proc/self/cgroup; cat /proc/$PPID/cgroup | sed 's/^/agent /'; sleep 0.05";
    let (_code, stdout, _stderr) = run_agent(&mut agent(script));
    let group = memory_group(&stdout);
    assert!(!group.try_exists().unwrap(), "{}", group.display());
    assert!(group.parent().unwrap().try_exists().unwrap());
}

#[tokio::test]
async fn what_outlives_the_command_is_neither_waited_for_nor_killed() {
    if !owns_groups() {
        return;
    }
    let script = "cat /proc/self/cgroup; sleep 300 >/dev/null 2>&1 & echo pid $!";
    let (code, stdout, _stderr) = run_agent(&mut agent(script));
    assert_eq!(code, 0);
    let group = memory_group(&stdout);
    let pid = stdout.lines().find_map(|line| line.strip_prefix("pid ")).unwrap().parse().unwrap();
    assert!(group.join("cgroup.procs").is_file());
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let cpuacct = PathBuf::from("/sys/fs/cgroup/cpuacct").join(group.file_name().unwrap());
    for dir in [group, cpuacct] {
        let gone = async || !dir.try_exists().unwrap() || std::fs::remove_dir(&dir).is_ok();
        eventually("the killed one has left the group", gone, |gone| *gone).await;
    }
}

#[test]
fn without_cgroups_the_process_tree_is_measured_daemons_included() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/proc", root.path().join("proc")).unwrap();
    // the middle shell ends at once, and its pipe goes to the reaper of its descendants
    let full = root.path().join("full");
    let script = format!(
        "( {{ head -c 104857600 /dev/zero; : >{0}; sleep 5; }} | tail >/dev/null & ); until [ -e {0} ]; do sleep 0.05; done; sleep 0.5; exit 3",
        full.display()
    );
    let limit = (1_u64 << 30).to_string();
    let (code, _stdout, stderr) = run_agent(agent(&script).env(ROOT, root.path()).env(LIMIT, limit));
    assert_eq!(code, 3);
    assert!((100.0..130.0).contains(&mebibytes(&stderr, "needed")), "{stderr}");
    assert!(stderr.contains("runs without the memory limit"), "{stderr}");
    assert!(!stderr.contains("with page cache"), "{stderr}");
}

#[test]
fn the_agent_asks_to_be_spared_when_the_kernel_kills_for_memory() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
    let (code, _stdout, stderr) = run_agent(agent("exit 3").env(ROOT, root.path()));
    assert_eq!(code, 3, "{stderr}");
    assert_eq!(std::fs::read_to_string(root.path().join("proc/self/oom_score_adj")).unwrap(), "-1000");
}
