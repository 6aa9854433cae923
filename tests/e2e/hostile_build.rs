//! A build with namespaces of its own, that puts something else where the agent reads its counters: a pipe without a writer, a device without an
//! end, a file too large to be one of the kernel's. The agent beside it neither waits nor fills its memory.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use plimsoll_tests::{Site, eventually, figures::Usage};

/// The agent's own memory beside such a build, at most. The file that is too large is larger.
const MAX_KIB: u64 = 64 * 1024;

/// Over each counter of its groups one of three things, counted on from `$2`; then it lives until its input ends.
const BUILD: &str = r#"
    mkfifo "$1/pipe" && head -c 256M /dev/zero > "$1/long" || exit 9
    n=$2
    while IFS=: read -r _ names path; do
        for dir in "/sys/fs/cgroup/$names$path" "/sys/fs/cgroup/unified$path" "/sys/fs/cgroup$path"; do
            for file in "$dir"/memory.* "$dir"/cpu* "$dir"/cgroup.*; do
                [ -f "$file" ] || continue
                case $((n % 3)) in 0) from=$1/pipe ;; 1) from=/dev/zero ;; 2) from=$1/long ;; esac
                mount --bind "$from" "$file" 2>/dev/null && n=$((n + 1))
            done
        done
    done < /proc/self/cgroup
    echo ready >&2
    read -r line
"#;

/// The agent with no cgroups of its own in sight: it has to look where the build can put things.
const AGENT: &str = r#"umount -R -l /sys/fs/cgroup && exec "$0" "$@""#;

/// Whether this user may make namespaces, and mount in them.
fn may_unshare() -> bool {
    let tried = Command::new("unshare").args(["-m", "umount", "-R", "-l", "/sys/fs/cgroup"]).status();
    tried.is_ok_and(|status| status.success())
}

fn build(dir: &Path, from: u32) -> Child {
    std::fs::create_dir_all(dir).unwrap();
    let mut build = Command::new("unshare")
        .args(["-m", "sh", "-c", BUILD, "sh", dir.to_str().unwrap(), &from.to_string()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = [0; 5];
    build.stderr.take().unwrap().read_exact(&mut stderr).unwrap();
    assert_eq!(&stderr, b"ready");
    build
}

fn agent(site: &Site, pid: u32, attempt: &str) -> Child {
    let pid = pid.to_string();
    let plain =
        site.agent.command(&["attach", "--pid", &pid, "--attempt", attempt, "--key", "package=hostile"]);
    let mut hidden = Command::new("unshare");
    hidden.args(["-m", "sh", "-c", AGENT]).arg(plain.get_program()).args(plain.get_args());
    hidden.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    hidden.stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_counter_files_do_not_harm_the_agent() {
    if !may_unshare() {
        eprintln!("skipped: this user may make no namespaces");
        return;
    }
    let site = Site::start().unwrap();
    for from in 0..3 {
        let attempt = format!("hostile-{from}");
        let mut build = build(&site.dir.path().join(&attempt), from);
        let mut agent = agent(&site, build.id(), &attempt);
        let spooled =
            async || std::fs::read_dir(site.agent.spool()).is_ok_and(|mut files| files.next().is_some());
        eventually("the agent follows the build", spooled, |is_there| *is_there).await;
        let kib = Usage::of(agent.id()).unwrap().resident_kib;
        build.stdin.take().unwrap().write_all(b"end\n").unwrap();
        build.wait().unwrap();
        let mut stderr = String::new();
        agent.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(agent.wait().unwrap().code(), Some(0), "{stderr}");
        // Linux says the exit status from 6.15 on
        let ends = ["ended with exit code", "exit status not known"];
        assert!(ends.iter().any(|end| stderr.contains(end)), "{stderr}");
        assert!(kib < MAX_KIB, "{kib} KiB: {stderr}");
    }
}
