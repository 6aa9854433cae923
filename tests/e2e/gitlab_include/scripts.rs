//! What scripts of jobs do at their end, and what of it reaches the server.

use super::*;

/// Scripts that do something about their own end, or about the jobs of their shell.
const SCRIPTS: [&str; 28] = [
    "trap 'echo cleanup $?' EXIT\necho built",
    "trap 'echo cleanup $?' EXIT\nfalse\necho never",
    "trap 'rc=$?; echo cleanup; exit $rc' EXIT\nexit 7",
    "trap 'echo zero' 0; trap - EXIT; trap 'echo signal' INT TERM; exit 4",
    "trap -- 'echo cleanup' EXIT HUP\ncd /\nPATH=/usr/bin:/bin\nexit 9",
    "set -u; trap 'echo cleanup' EXIT; echo \"${NOT_SET:-x}\"",
    "set -u\necho \"$NOT_SET\"\necho never",
    "set -C; set -e; trap 'echo cleanup' EXIT; echo x",
    "( trap 'echo inner' EXIT; exit 0 ); echo after",
    "sleep 0.1 & wait; echo waited",
    "for job in $(jobs -p); do kill $job; done; echo done",
    "case \"$(trap -p EXIT 2>/dev/null || true)\" in ?*) saved=$(trap -p EXIT); eval \"$saved\" ;; esac; exit 3",
    "trap 'exit 3' EXIT; true",
    "trap 'false; echo never' EXIT; true",
    "trap 'echo cleanup; exit' EXIT; exit 6",
    "trap 'echo one' EXIT; trap 'echo two' EXIT; sh -c 'exit 5'",
    "f() { trap 'echo left' RETURN 2>/dev/null || true; echo in; }; f; trap - ERR 2>/dev/null; echo out",
    "export PATH=/opt/toolchain/bin",
    "rm() { exit 9; }; sleep() { exit 9; }; exit() { echo mine; }; eval() { echo mine; return 4; }",
    "command() { return 3; }; test() { return 3; }; echo() { return 3; }; read() { return 3; }; true",
    "IFS=/0123456789; set -f; umask 777; true",
    "set +e; false",
    "exec 2>&- >&-; true",
    "ulimit -f 0; true",
    "mkdir gone; cd gone; rmdir ../gone; true",
    "cd /; rm -rf \"$CI_PROJECT_DIR\"",
    "readonly plain=1; set -u; exit 4",
    "sleep 30 & trap 'kill $!; echo killed' EXIT; true",
];

/// Runs a script alone and measured: it must end in the same way, and the server must know how.
fn check(fleet: &Fleet, shell: &[&str], id: &str, script: &str) {
    // busybox does not wait where a script has an EXIT trap of its own: a job that ends before the agent begins is not seen
    let begins = if shell[0] == "busybox" { "eval \"$BEGUN\"\n" } else { "" };
    let script = &format!("{begins}{script}");
    let alone = fleet.job(shell, "0", script, &[("PLIMSOLL_MEASURE", "off"), ("BEGUN", "")]);
    let measured = fleet.job(shell, id, script, &[BEGUN]);
    let output = text(&measured);
    assert_eq!(measured.status.code(), alone.status.code(), "{shell:?} {script}: {output}");
    assert_eq!(measured.stdout, alone.stdout, "{shell:?} {script}: {output}");
    let shown = fleet.shown(id);
    let (summary, status) = (&shown["summary"], alone.status.code().unwrap());
    // busybox runs a script's own EXIT trap last of all: an old kernel does not say what came of it
    let known = shell[0] != "busybox" || !summary["exit_code"].is_null();
    let (outcome, exit) = match status {
        _ if !known => ("ended", None),
        0 => ("succeeded", Some(0)),
        status => ("failed", Some(status.into())),
    };
    assert_eq!(summary["outcome"], outcome, "{shell:?} {script}: {shown} {output}");
    assert_eq!(summary["exit_code"].as_i64(), exit, "{shell:?} {script}: {shown}");
}

/// Scripts whose last command takes the place of the shell, so that no trap runs. They go on until the agent has begun: nothing else waits for it.
const REPLACED: [&str; 2] = ["exec sh -c \"$BEGUN exit 0\"", "exec sh -c \"$BEGUN exit 3\""];

/// Waits until the agent keeps samples of the job.
const BEGUN: (&str, &str) = ("BEGUN", "until ls $PLIMSOLL_SPOOL_DIR/*.spool >/dev/null 2>&1; do :; done;");

fn check_replaced(fleet: &Fleet, shell: &[&str], id: &str, script: &str) {
    let off = [("PLIMSOLL_MEASURE", "off"), ("BEGUN", "")];
    let status = fleet.job(shell, "0", script, &off).status.code();
    let measured = fleet.job(shell, id, script, &[BEGUN]);
    let output = text(&measured);
    assert_eq!(measured.status.code(), status, "{shell:?} {script}: {output}");
    let summary = fleet.shown(id)["summary"].clone();
    // the kernel says the exit status from Linux 6.15 on
    let known = if status == Some(0) { "succeeded" } else { "failed" };
    let outcome = if summary["exit_code"].is_null() { "ended" } else { known };
    assert_eq!(summary["outcome"], outcome, "{shell:?} {script}: {summary} {output}");
    let exit = summary["exit_code"].as_i64();
    assert!(exit.is_none() || exit == status.map(i64::from), "{shell:?} {script}: {summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_ends_as_it_would_alone() {
    let Some(fleet) = Fleet::start() else { return };
    for (number, shell) in SHELLS.iter().filter(|shell| found(shell[0]).is_some()).enumerate() {
        for (place, script) in REPLACED.iter().enumerate() {
            check_replaced(&fleet, shell, &format!("9{number}{place:02}"), script);
        }
        for (place, script) in SCRIPTS.iter().enumerate() {
            check(&fleet, shell, &format!("{number}{place:02}"), script);
        }
    }
}
