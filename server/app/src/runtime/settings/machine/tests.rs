//! How much memory a server may use on a machine, and what it says of a machine that is too small.

use plimsoll_measure::fake_kernel::FakeKernel;

use super::*;

const MIB: u64 = 1 << 20;

/// A kernel with 4 GiB of RAM, of which 1 MiB is free.
fn with_ram(fake: FakeKernel) -> FakeKernel {
    fake.write(MEMINFO, "MemTotal:        4194304 kB\nMemAvailable:    1024 kB\n");
    fake
}

fn read(fake: &FakeKernel) -> Option<MachineMemory> {
    MachineMemory::read(&fake.kernel().path("/"))
}

fn with(machine: Option<MachineMemory>) -> Config {
    Config { machine, ..Config::default() }
}

#[test]
fn the_smallest_limit_around_the_process_counts() {
    assert_eq!(read(&FakeKernel::new()), None);
    let ram = read(&with_ram(FakeKernel::new())).unwrap();
    assert_eq!(ram.to_string(), "4.00 GiB (/proc/meminfo)");
    let v2 = with_ram(FakeKernel::v2("/ci.slice/server.service"));
    assert_eq!(read(&v2), Some(ram));
    v2.write("/sys/fs/cgroup/ci.slice/memory.max", "314572800\n");
    assert_eq!(read(&v2).unwrap().to_string(), "300 MiB (/sys/fs/cgroup/ci.slice/memory.max)");
    // of equal limits the nearest
    v2.write("/sys/fs/cgroup/ci.slice/server.service/memory.max", "314572800\n");
    assert!(read(&v2).unwrap().source.ends_with("server.service/memory.max"));
    let v1 = with_ram(FakeKernel::hybrid("/server", "/"));
    v1.write("/sys/fs/cgroup/memory/server/memory.limit_in_bytes", "314572800\n");
    assert_eq!(read(&v1).unwrap().source, "/sys/fs/cgroup/memory/server/memory.limit_in_bytes");
}

#[test]
fn the_least_of_all_limits_is_left() {
    let left = |fake: &FakeKernel| MachineMemory::memory_left(&fake.kernel().path("/"));
    assert_eq!(left(&FakeKernel::new()), None);
    let v2 = with_ram(FakeKernel::v2("/server"));
    assert_eq!(left(&v2), Some(Bytes(MIB)));
    v2.write("/sys/fs/cgroup/memory.max", "1000\n");
    v2.write("/sys/fs/cgroup/memory.current", "900\n");
    assert_eq!(left(&v2), Some(Bytes(100)));
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
fn an_impossible_memory_plan_names_settings_to_change() {
    let v1 = with_ram(FakeKernel::hybrid("/server", "/"));
    v1.write("/sys/fs/cgroup/memory/server/memory.limit_in_bytes", "314572800\n");
    let mut config = with(read(&v1));
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
