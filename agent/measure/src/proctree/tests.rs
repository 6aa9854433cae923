//! Process trees on kernels of text files, and a real one.

use super::*;
use crate::fake_kernel::FakeKernel;

/// pid, parent, utime, stime, cutime, cstime
fn process(fake: &FakeKernel, pid: i32, parent: i32, ticks: [u64; 4], anon_kib: u64) {
    fake.process([pid, parent, pid], ticks, anon_kib);
}

#[test]
fn a_hidden_running_process_has_not_ended() {
    let hidden = tempfile::tempdir().unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let known = BTreeSet::new();
    assert!(!is_below_or_ended(hidden.path(), own, 1, &known));
    assert!(is_below_or_ended(hidden.path(), i32::MAX, 1, &known), "no process has this id");
}

#[test]
fn only_descendants_count_and_cpu_never_goes_back() {
    let fake = FakeKernel::new();
    process(&fake, 10, 1, [9, 9, 100, 0], 50_000);
    process(&fake, 11, 10, [100, 50, 0, 0], 1000);
    process(&fake, 12, 11, [50, 0, 200, 0], 2000);
    process(&fake, 13, 1, [999, 0, 0, 0], 90_000);
    let mut tree = ProcessTree::of(&fake.kernel(), 10).unwrap();
    let reading = tree.read().unwrap();
    assert_eq!(reading.need, (1000 + 2000 + 8) * 1024, "both map the same 8 KiB");
    assert_eq!(reading.memory, (1100 + 2100 + 8) * 1024);
    assert_eq!(reading.cpu_usec, 400 * 1_000_000 / procfs::ticks_per_second());
    assert_eq!((reading.oom_kill, reading.memory_peak), (None, None));
    fake.remove("/proc/12/stat");
    assert_eq!(tree.read().unwrap().cpu_usec, reading.cpu_usec);
}

#[test]
fn pages_that_processes_share_count_once() {
    let fake = FakeKernel::new();
    process(&fake, 10, 1, [0; 4], 0);
    for pid in 11..15 {
        process(&fake, pid, 10, [0; 4], 400_000);
        let rollup = "00400000-7fff rollup\nRss: 400108 kB\nPss: 100027 kB\nPss_Dirty: 1 kB\nPss_Anon: 100000 kB\nPss_File: 25 kB\nPss_Shmem: 2 kB\n";
        fake.write(&format!("/proc/{pid}/smaps_rollup"), rollup);
    }
    let mut tree = ProcessTree::of(&fake.kernel(), 10).unwrap();
    let reading = tree.read().unwrap();
    assert_eq!(reading.need, 4 * (100_000 + 2) * 1024);
    assert_eq!(reading.memory, 4 * (100_000 + 2 + 25) * 1024);
    fake.remove("/proc/14/smaps_rollup");
    let reading = tree.read().unwrap();
    assert_eq!(reading.need, (3 * (100_000 + 2) + 400_000 + 8) * 1024, "what cannot be read counts whole");
}

#[test]
fn a_followed_build_counts_from_its_first_process() {
    let fake = FakeKernel::new();
    process(&fake, 10, 1, [9, 1, 100, 0], 50_000);
    process(&fake, 11, 10, [100, 50, 0, 0], 1000);
    let mut tree = ProcessTree::with_root(fake.kernel().path("/proc"), 10).unwrap();
    let reading = tree.read().unwrap();
    assert_eq!(reading.need, (50_000 + 1000 + 8) * 1024);
    assert_eq!(reading.cpu_usec, 260 * 1_000_000 / procfs::ticks_per_second());
    assert!(ProcessTree::with_root(fake.kernel().path("/proc"), 12).is_err());
}

#[test]
fn daemons_of_a_followed_build_stay_its_own() {
    let fake = FakeKernel::new();
    let mut tree = followed(&fake, "");
    fake.process([11, 10, 11], [100, 0, 0, 0], 2000);
    assert_eq!(needed_kib(&mut tree), 3000);
    fake.process([11, 1, 11], [300, 0, 0, 0], 2000);
    fake.process([12, 1, 11], [0; 4], 4000);
    fake.process([std::process::id().cast_signed(), 10, 5], [0; 4], 9999);
    fake.process([13, 12, 13], [0; 4], 8000);
    assert_eq!(needed_kib(&mut tree), 15_000, "seen before, in its session, and below");
    fake.remove("/proc/11/stat");
    fake.process([10, 5, 5], [50, 0, 0, 0], 1000);
    assert_eq!(needed_kib(&mut tree), 13_000);
    let ticks = tree.read().unwrap().cpu_usec * procfs::ticks_per_second() / 1_000_000;
    assert_eq!((ticks, tree.notice()), (350, None), "what an ended daemon used stays");
}

#[test]
fn a_lost_daemon_is_recognized_or_reported() {
    for (build, daemon, parent, kib, counted, reported) in [
        ("CI_JOB_ID=7\0A=1\0", "CI_JOB_ID=7\0", 1, 90_000, true, false),
        ("CI_JOB_ID=7\0A=1\0", "CI_JOB_ID=8\0A=1\0", 1, 90_000, false, false),
        ("CI_JOB_ID=7\0A=1\0", "A=1\0", 1, 90_000, false, true),
        ("A=1\0PWD=/\0", "A=1\0PWD=/x\0B=2\0", 1, 90_000, true, false),
        ("A=1\0", "A=2\0", 1, 90_000, false, true),
        ("A=1\0", "A=3\0B=2\0", 1, 90_000, true, false),
        ("A=1\0", "A=2\0", 1, 900, false, false),
        ("A=1\0", "A=1\0", 5, 90_000, false, false),
    ] {
        let fake = FakeKernel::new();
        let mut tree = followed(&fake, build);
        fake.process([40, parent, 40], [0; 4], kib);
        fake.write("/proc/40/environ", daemon);
        fake.process([11, 10, 5], [0; 4], 0);
        fake.write("/proc/11/environ", "A=3\0");
        let counts = needed_kib(&mut tree) > 1000;
        assert_eq!((counts, tree.notice().is_some()), (counted, reported), "{build:?} {daemon:?} {parent}");
    }
}

/// The tree of process 10 with 1000 KiB, which a script with a session of its own started, and with this environment.
fn followed(fake: &FakeKernel, environment: &str) -> ProcessTree {
    fake.process([5, 1, 5], [0; 4], 1000);
    fake.process([10, 5, 5], [0; 4], 1000);
    fake.write("/proc/10/environ", environment);
    ProcessTree::with_root(fake.kernel().path("/proc"), 10).unwrap()
}

/// The need without the 8 KiB that all share.
fn needed_kib(tree: &mut ProcessTree) -> u64 {
    tree.read().unwrap().need / 1024 - 8
}

#[test]
fn a_real_process_keeps_its_cpu_after_exit() {
    // the shell's own pipe says when tail has read everything; then it holds all of it until its input ends
    let script =
        "{ head -c 60000000 /dev/zero; echo; echo full >&2; read -r line <&3; } 3<&0 | tail >/dev/null";
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // below the shell: other tests of this program have children too
    let mut tree = ProcessTree::of(&Kernel::running(), i32::try_from(child.id()).unwrap()).unwrap();
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(child.stderr.take().unwrap()), &mut line).unwrap();
    let mut reading = tree.read().unwrap();
    // the last pipe full may still be on its way to tail
    while reading.need < 50_000_000 {
        reading = tree.read().unwrap();
    }
    assert!(reading.need < 100_000_000, "{reading:?}");
    assert!(reading.memory >= reading.need);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(tree.read().unwrap().cpu_usec >= reading.cpu_usec);
}
