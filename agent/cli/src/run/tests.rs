//! The whole run, in a process of its own: this test program again, as the agent.

mod signals;

use std::{
    io::Write,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, kill},
    unistd::Pid,
};
use plimsoll_proto::v1::Key;
use plimsoll_support::patience::eventually;

use super::*;
use crate::output::PHASE_TOOLS;

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
            key: Key { package: "zlib".to_owned(), ..Key::default() },
            number: 1,
            interval: Duration::from_secs(1),
            ..attempt::Settings::default()
        },
        limit_memory: variable(LIMIT).map(|bytes| bytes.parse().unwrap()),
        limit_memory_most: None,
        secrets: Secrets::default(),
        acting: VerdictActions::default(),
        marks: variable(MARKS)
            .map(|_set| PhaseMarks { tools: vec![PHASE_TOOLS[0]], ..PhaseMarks::default() }),
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
fn an_unread_stderr_does_not_delay_the_end() {
    let (reader, writer) = full_pipe();
    assert_eq!(run_agent(agent("exit 5").stderr(writer)).0, 5);
    drop(reader);
}

/// Not a test: the witness of the agents.
#[test]
#[ignore = "the witness of the other tests"]
fn witness_process() {
    witness::serve();
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
fn an_unrunnable_command_exits_127_or_126() {
    let (code, _stdout, stderr) = run_agent(&mut agent("exec no-such-command-here -x"));
    assert_eq!(code, 127);
    assert!(stderr.contains("cannot run 'no-such-command-here': No such file"), "{stderr}");
    assert_eq!(run_agent(&mut agent("exec /etc/passwd")).0, 126);
}

#[test]
fn scripts_without_shebang_run_through_the_shell() {
    let (dir, path) = plimsoll_support::temporary::file_name("bin/plain-script");
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

#[test]
fn memory_that_a_build_holds_is_its_need() {
    if !owns_groups() {
        return;
    }
    // tail keeps everything, because there is no end of line; it holds it for several samples
    let script = "{ head -c 209715200 /dev/zero; sleep 4; } | tail >/dev/null";
    let (code, _stdout, stderr) = run_agent(&mut agent(script));
    assert_eq!(code, 0);
    assert!(!stderr.contains("cgroup"), "the witness is no part of the build: {stderr}");
    let need = mebibytes(&stderr, "needed");
    assert!((200.0..230.0).contains(&need), "{stderr}");
    assert!(with_page_cache(&stderr) >= need - 1.0, "{stderr}");
}

#[test]
fn the_builds_cgroup_is_removed_after_the_run() {
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
async fn surviving_processes_are_neither_awaited_nor_killed() {
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
fn without_cgroups_the_process_tree_includes_daemons() {
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
fn the_agent_lowers_its_oom_score() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
    let (code, _stdout, stderr) = run_agent(agent("exit 3").env(ROOT, root.path()));
    assert_eq!(code, 3, "{stderr}");
    assert_eq!(std::fs::read_to_string(root.path().join("proc/self/oom_score_adj")).unwrap(), "-1000");
}
