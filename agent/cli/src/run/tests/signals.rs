//! What signals to the agent, and to its group, do to the build.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
};

use nix::sys::{
    signal::killpg,
    wait::{WaitPidFlag, WaitStatus, waitpid},
};
use rustix::process::{Signal as AnySignal, kill_process, kill_process_group};
use rustix_libc_wrappers::process::SignalExt as _;

use super::*;

#[test]
fn one_signal_suffices_without_an_output_reader() {
    let script =
        "trap 'exit 3' TERM; head -c 1000000 /dev/zero & echo ready >&2; while :; do sleep 0.05; done";
    let mut child = spawn(agent(script).env(MARKS, "1"));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
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

/// A mask of signals, as `/proc/PID/status` has it.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
}

fn is_ignored(status: &str, signal: Signal) -> bool {
    mask(status, "SigIgn") >> (signal as u32 - 1) & 1 == 1
}

#[test]
fn the_command_inherits_the_agents_signal_dispositions() {
    let (_code, stdout, _stderr) = run_agent(&mut agent("exec cat /proc/self/status"));
    assert_eq!(mask(&stdout, "SigBlk"), 0);
    assert!(!is_ignored(&stdout, Signal::SIGPIPE), "SIGPIPE ends a pipe of programs");
    let (code, ..) = run_agent(&mut agent("set -e; yes | head -n 1 >/dev/null"));
    assert_eq!(code, 0);
}

#[test]
fn a_terminal_interrupt_reaches_the_command_once() {
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
