//! How much memory a server may use on a machine, and what it says of a machine that is too small.

use super::*;

const MIB: u64 = 1 << 20;

/// A kernel with 4 GiB of RAM and these files.
#[test]
fn what_is_left_is_the_least_of_all_limits_and_pages_of_files_count_as_free() {
    let left = |files: &[(&str, &str)]| {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        MachineMemory::memory_left(root.path())
    };
    let meminfo = ("proc/meminfo", "MemTotal:  4194304 kB\nMemAvailable:    1024 kB\n");
    assert_eq!(left(&[]), None);
    assert_eq!(left(&[meminfo]), Some(Bytes(MIB)));
    let v2 = [
        ("proc/self/cgroup", "0::/ci/server\n"),
        ("proc/meminfo", "MemAvailable: 4194304 kB\n"),
        ("sys/fs/cgroup/ci/server/memory.max", "max\n"),
        ("sys/fs/cgroup/ci/server/memory.current", "1\n"),
        ("sys/fs/cgroup/ci/memory.max", "1000\n"),
        ("sys/fs/cgroup/ci/memory.current", "900\n"),
        ("sys/fs/cgroup/ci/memory.stat", "anon 500\ninactive_file 300\nactive_file 60\n"),
    ];
    assert_eq!(left(&v2), Some(Bytes(460)));
    let v1 = [
        ("proc/self/cgroup", "4:memory:/server\n"),
        ("sys/fs/cgroup/memory/server/memory.limit_in_bytes", "1000\n"),
        ("sys/fs/cgroup/memory/server/memory.usage_in_bytes", "900\n"),
        (
            "sys/fs/cgroup/memory/server/memory.stat",
            "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 3\n",
        ),
    ];
    assert_eq!(left(&v1), Some(Bytes(133)));
}

fn kernel(files: &[(&str, &str)]) -> Option<MachineMemory> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in
        files.iter().chain(&[("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n")])
    {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    MachineMemory::read(root.path())
}

fn with(machine: Option<MachineMemory>) -> Config {
    Config { machine, ..Config::default() }
}

#[test]
fn the_smallest_limit_around_the_process_counts() {
    let ram = MachineMemory { bytes: Bytes(4096 * MIB), source: "/proc/meminfo".to_owned() };
    assert_eq!(kernel(&[]), Some(ram.clone()));
    let v2 = kernel(&[
        ("proc/self/cgroup", "0::/ci.slice/server.service\n"),
        ("sys/fs/cgroup/ci.slice/server.service/memory.max", "max\n"),
        ("sys/fs/cgroup/ci.slice/memory.max", "314572800\n"),
    ]);
    assert_eq!(v2.unwrap().to_string(), "300 MiB (/sys/fs/cgroup/ci.slice/memory.max)");
    let v1 = kernel(&[
        ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/kubepods/pod/server\n0::/\n"),
        ("sys/fs/cgroup/memory/kubepods/pod/server/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes", "314572800\n"),
    ]);
    assert_eq!(v1.unwrap().source, "/sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes");
    // a container with the path of the host
    let inside = kernel(&[
        ("proc/self/cgroup", "0::/kubepods.slice/pod/server\n"),
        ("sys/fs/cgroup/memory.max", "314572800\n"),
    ]);
    assert_eq!(inside.unwrap().source, "/sys/fs/cgroup/memory.max");
    let none = kernel(&[("proc/self/cgroup", "0::/a\nnonsense\n"), ("sys/fs/cgroup/a/memory.max", "-1\n")]);
    assert_eq!(none, Some(ram));
}

#[test]
fn the_default_history_follows_the_machine() {
    let machine = |mib| Some(MachineMemory { bytes: Bytes(mib * MIB), source: "memory.max".to_owned() });
    let plan = |mib| MemoryPlan::of(&with(machine(mib)));
    assert_eq!(MemoryPlan::of(&with(None)).history, Bytes(480 * MIB));
    assert_eq!(plan(64_000).history, Bytes(480 * MIB));
    assert!(plan(64_000).reason.contains("each million"), "{}", plan(64_000).reason);
    assert_eq!(plan(1000).history, Bytes(400 * MIB));
    assert_eq!(plan(1000).reason, "the default for 1000 MiB (memory.max)");
    // a sixteenth of 400 is spare, 192 MiB are for the store's cache and the program, 64 MiB for answers; the history takes 8/5 of its size
    assert_eq!(plan(400).history, Bytes((400 * MIB - 400 * MIB / 16 - 256 * MIB) / 8 * 5));
    assert_eq!(plan(300).history, Bytes(16 * MIB));
    assert!(plan(300).check().is_ok());
    assert_eq!(plan(20).history, Bytes(16 * MIB));
    assert!(plan(20).check().is_err());
    // a store of a million attempts
    let large = Config { log_bytes: 588 * MIB, ..with(machine(300)) };
    let plan = MemoryPlan::of(&large);
    assert!(plan.check().is_ok() && plan.history == Bytes(16 * MIB), "{plan:?}");
}

#[test]
fn a_start_says_that_no_backup_will_fit() {
    let machine = |mib| Some(MachineMemory { bytes: Bytes(mib * MIB), source: "memory.max".to_owned() });
    let shortage = |config: &Config| MemoryPlan::backup_shortage(config);
    for (mib, history_mib, advice) in [
        (4096, None, None),
        (512, None, None),
        (512, Some(200), Some("set history_memory to at most 140MiB")),
        (300, None, Some("give it at least 307")),
        (308, None, None),
    ] {
        let history_memory = history_mib.map(|mib| Bytes(mib * MIB));
        let warning = shortage(&Config { history_memory, ..with(machine(mib)) });
        assert_eq!(warning.is_some(), advice.is_some(), "{mib}: {warning:?}");
        assert!(warning.unwrap_or_default().contains(advice.unwrap_or_default()));
    }
    assert_eq!(shortage(&with(None)), None);
}

#[test]
fn a_start_that_cannot_fit_says_what_it_needs_and_which_setting_to_change() {
    let machine = kernel(&[
        ("proc/self/cgroup", "4:memory:/server\n"),
        ("sys/fs/cgroup/memory/server/memory.limit_in_bytes", "314572800\n"),
    ]);
    let mut config = with(machine);
    config.history_memory = Some(Bytes(480 * MIB));
    let plan = MemoryPlan::of(&config);
    let refused = plan.check().unwrap_err().to_string();
    for part in [
        "needs 672 MiB: 480 MiB for the history, 192 MiB for",
        "only 300 MiB (/sys/fs/cgroup/memory/server/memory.limit_in_bytes)",
        "set history_memory to at most 16MiB",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(!refused.contains('\n'), "one line: {refused}");
    assert_eq!(plan.reason, "history_memory");
    config.history_memory = Some(Bytes(16 * MIB));
    assert!(MemoryPlan::of(&config).check().is_ok(), "what it says helps");
    config.store_cache = Bytes(1 << 30);
    let refused = MemoryPlan::of(&config).check().unwrap_err().to_string();
    assert!(refused.contains("set store_cache lower"), "{refused}");
}
