use std::time::Duration;

use super::{
    largest::LargestSoFar,
    programs::work_file,
    stoppable::{has_watcher_above, may_be_stopped},
    *,
};
use crate::fake_kernel::FakeKernel;

/// A sleeping process, which started at the tick of its id.
pub(crate) fn process(pid: i32, parent: i32, name: &str, mib: u64) -> ProcessView {
    ProcessView {
        id: ProcessId { started: pid.unsigned_abs().into(), pid },
        parent,
        group: 1,
        name: name.to_owned(),
        state: 'S',
        cpu_ticks: 0,
        user_ticks: 0,
        resident: mib << 20,
        has_children: false,
    }
}

/// Writes the files of a process of this user, with its command line.
pub(crate) fn write(fake: &FakeKernel, process: &ProcessView, line: &str) {
    let ProcessView { id, parent, group, name, resident, .. } = process;
    let (dir, pages, zeros) = (format!("/proc/{}", id.pid), resident >> 12, "0 ".repeat(30));
    let (pid, started, user) = (id.pid, id.started, rustix::process::geteuid());
    let stat = format!(
        "{pid} ({name}) R {parent} {group} 1 0 -1 0 0 0 0 0 5 3 0 0 20 0 1 0 {started} 0 {pages} {zeros}\n"
    );
    fake.write(&format!("{dir}/stat"), &stat);
    fake.write(&format!("{dir}/statm"), &format!("99999 {} 256 1 0 1 0\n", pages + 256));
    fake.write(&format!("{dir}/cmdline"), &line.replace(' ', "\0"));
    let status = format!(
        "Name:\t{name}\nTracerPid:\t0\nUid:\t{user}\t{user}\t{user}\t{user}\nRssAnon:\t{} kB\nRssShmem:\t0 kB\n",
        resident >> 10
    );
    fake.write(&format!("{dir}/status"), &status);
    link(fake, id.pid, &format!("/usr/bin/{name}"));
}

/// Sets the program that a process runs.
fn link(fake: &FakeKernel, pid: i32, exe: &str) {
    let link = fake.kernel().path(format!("/proc/{pid}/exe"));
    let _earlier = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(exe, link).unwrap();
}

fn look(fake: &FakeKernel, pids: &[i32]) -> ProcessTable {
    ProcessTable::read(fake.kernel().path("/proc"), pids)
}

#[test]
fn the_largest_process_is_named_with_its_file() {
    let fake = FakeKernel::new();
    let mut largest = LargestSoFar::default();
    write(
        &fake,
        &process(7, 1, "cc1plus", 300),
        "/usr/lib/cc1plus -quiet -I inc -include all.cc src/big.cc -o /tmp/x.s",
    );
    write(&fake, &process(8, 1, "make", 30), "make -j8 TOKEN=secret.c");
    largest.add(Duration::from_secs(1), &look(&fake, &[7, 8, 9]), false);
    // it grows where its command line may no longer be read
    write(&fake, &process(7, 1, "cc1plus", 3000), "");
    largest.add(Duration::from_secs(5), &look(&fake, &[7, 8]), true);
    write(&fake, &process(7, 1, "cc1plus", 200), "");
    largest.add(Duration::from_secs(6), &look(&fake, &[7]), false);
    let (found, compilers) = largest.finish();
    let found = found.unwrap();
    assert_eq!((found.program.as_str(), found.file.as_str()), ("cc1plus", "big.cc"));
    assert_eq!((found.memory_bytes, found.elapsed_ms, compilers), (3000 << 20, 5000, Some(1)));
}

#[test]
fn hidden_processes_and_odd_names_are_read() {
    let fake = FakeKernel::new();
    let largest = || {
        let mut largest = LargestSoFar::default();
        largest.add(Duration::ZERO, &look(&fake, &[0, 7, -3]), false);
        largest.finish()
    };
    assert_eq!(largest(), (None, None));
    write(&fake, &process(7, 1, "a) b\n(c", 20), "x a.c");
    assert_eq!(largest().0.unwrap().program, "a) b(c");
}

#[test]
fn only_names_of_known_files_are_taken() {
    let file = |line: &str| work_file(line.split(' ').next().unwrap(), &line.split(' ').collect::<Vec<_>>());
    assert_eq!(file("rustc --crate-name serde src/lib.rs").as_deref(), Some("serde"));
    assert_eq!(file("ld.lld -m elf a.o -o out/app").as_deref(), Some("app"));
    assert_eq!(file("x86_64-linux-gnu-ld.bfd -o app").as_deref(), Some("app"));
    assert_eq!(file("clang-17 -cc1 -main-file-name a.cpp -o x.o a/b.cpp").as_deref(), Some("a.cpp"));
    assert_eq!(file("python3 -m pytest"), None);
    assert_eq!(file("curl --password=x.c https://host"), None);
    assert_eq!(file(&format!("cc1 {}.c", "x".repeat(10_000))), None);
    assert_eq!(work_file("cc1", &["cc1", "a\nb.c"]), None);
    assert_eq!(work_file("ld", &["ld", "-o"]), None);
}

#[test]
fn only_own_untraced_compilers_may_be_stopped() {
    let fake = FakeKernel::new();
    let table = ProcessTable::of(fake.kernel().path("/proc"), [], false);
    let user = rustix::process::geteuid().as_raw();
    let may = |exe: &str, user: u32, tracer: u32, started: u64| {
        write(&fake, &process(7, 1, "g++", 9), "g++");
        let status = format!("Name:\tg++\nTracerPid:\t{tracer}\nUid:\t{user}\t{user}\t{user}\t{user}\n");
        fake.write("/proc/7/status", &status);
        link(&fake, 7, exe);
        may_be_stopped(&table, ProcessId { started, pid: 7 }, &["tool".to_owned()])
    };
    for exe in
        ["/usr/lib/cc1plus", "/usr/bin/x86_64-linux-gnu-ld.bfd", "/usr/bin/clang-17 (deleted)", "/opt/tool"]
    {
        assert!(may(exe, user, 0, 7), "{exe}");
    }
    for exe in ["/usr/bin/ccache", "/usr/bin/distcc", "/bin/sh", "/usr/bin/python3"] {
        assert!(!may(exe, user, 0, 7), "{exe}");
    }
    assert!(!may("/usr/lib/cc1plus", user + 1, 0, 7), "of another user");
    assert!(!may("/usr/lib/cc1plus", user, 1, 7), "traced");
    assert!(!may("/usr/lib/cc1plus", user, 0, 8), "another process by now");
    fake.remove("/proc/7/status");
    assert!(!may_be_stopped(&table, ProcessId { started: 7, pid: 7 }, &[]), "hidden");
}

#[test]
fn watchers_in_other_programs_are_recognized() {
    let fake = FakeKernel::new();
    write(&fake, &process(2, 1, "java", 9), "bazel(project) -Xmx1g");
    let list = vec![process(2, 1, "java", 9), process(3, 2, "process-wrapper", 1), process(4, 3, "cc1", 9)];
    let table = |list| ProcessTable::of(fake.kernel().path("/proc"), list, false);
    assert!(has_watcher_above(&table(list.clone()), 4));
    write(&fake, &process(2, 1, "java", 9), "java -jar gradle.jar");
    assert!(!has_watcher_above(&table(list), 4));
    for (line, watches) in [
        ("python3 build/bin/llvm-lit -v test", true),
        ("python3 -m pytest", true),
        ("python3 setup.py build", false),
    ] {
        write(&fake, &process(2, 1, "python3.11", 9), line);
        let list = vec![process(2, 1, "python3.11", 9), process(4, 2, "cc1", 9)];
        assert_eq!(has_watcher_above(&table(list), 4), watches, "{line}");
    }
}
