//! Builds that behave badly, and wrong options: nothing hangs, nothing is left, and the build's own end comes through.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::Agent;

/// Both ways to run a script: with its own streams, and with streams that are read.
fn ways(script: &str) -> [Vec<&str>; 2] {
    let of = |phases| vec!["run", "--phases", phases, "--quiet", "--", "sh", "-c", script];
    [of("off"), of("gitlab,spack")]
}

#[test]
fn thousands_of_short_processes_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    // the last command looks for processes that were not waited for
    let script = "i=0; while [ $i -lt 3000 ]; do (:); i=$((i + 1)); done; \
                  cat /proc/[0-9]*/stat 2>/dev/null | grep -c \") Z $PPID \"; exit 9";
    for way in ways(script) {
        let ran = Agent::alone(dir.path()).call(&way);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(9), "0\n"), "{ran:?}");
    }
}

#[test]
fn the_build_runs_even_without_agent_resources() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::alone(dir.path()).with("PLIMSOLL_TOKEN", "secret");
    for limit in ["n 8", "n 12", "s 128", "v 40000"] {
        let of =
            agent.command(&["run", "--retry-in-place=1", "--", "sh", "-c", "exit {jobs}5$PLIMSOLL_TOKEN"]);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit -{limit}; exec \"$@\""), "sh"])
            .arg(of.get_program())
            .args(of.get_args());
        limited.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = limited.output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code().is_some_and(|code| code % 10 == 5), "{limit}: {ran:?}");
        assert!(stderr.starts_with("plimsoll: the build runs without being measured: "), "{limit}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{limit}: {stderr}");
    }
}

#[test]
fn a_build_may_close_its_streams() {
    let dir = tempfile::tempdir().unwrap();
    for way in ways("exec >&- 2>&-; sleep 0.2; exit 4") {
        let ran = Agent::alone(dir.path()).call(&way);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(4), "", ""), "{way:?}");
    }
}

#[test]
fn a_build_that_ignores_sigterm_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    for way in ways("trap '' TERM; echo ready; read -r line; echo $line; exit 5") {
        let mut command = Agent::alone(dir.path()).command(&way);
        let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        kill(Pid::from_raw(i32::try_from(agent.id()).unwrap()), Signal::SIGTERM).unwrap();
        agent.stdin.take().unwrap().write_all(b"still here\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "still here");
        assert_eq!(agent.wait().unwrap().code(), Some(5));
    }
}
