//! Groups on kernels of text files.

use plimsoll_proto::counters::PageCounters;

use super::*;
use crate::{
    cgroup::{CgroupLimits, find},
    fake_kernel::FakeKernel,
};

fn reader(fake: &FakeKernel) -> CgroupReader {
    let groups = find(&fake.kernel(), "self").unwrap().unwrap();
    CgroupReader::open(&groups, &CgroupLimits::read(&groups)).unwrap().unwrap()
}

/// What a kernel with these counters tells.
fn pages(stat: &str) -> PageCounters {
    parse_stat_v2(stat).pages
}

#[test]
fn v2_is_read_whole() {
    let fake = FakeKernel::v2("/build");
    let mut reader = reader(&fake);
    let expected = Reading {
        memory: 10_000,
        need: 1_600,
        memory_peak: Some(12_000),
        cpu_usec: 5_000,
        oom_kill: Some(1),
        oom_group_kill: Some(0),
        reclaim_failures: Some(9),
        limit_hits: Some(1),
        limit_hits_above: Some(0),
        sees_all_limits: true,
        memory_stall_usec: Some(70),
        pages: pages("workingset_refault_file 30\npgmajfault 4\n"),
        major_faults: Some(4),
        throttled_usec: Some(600),
        ..Reading::default()
    };
    assert_eq!(reader.read().unwrap(), expected);
    fake.write("/sys/fs/cgroup/build/memory.current", "1500\n");
    assert_eq!(reader.read().unwrap().need, 1_500, "the need is never more than the usage");
    assert_eq!(reader.read_size().unwrap(), MemorySize { memory: 1_500, need: 1_500 });
}

#[test]
fn swapped_memory_is_need_and_counts_once() {
    let v2 = "anon 1000\nkernel 700\nslab_reclaimable 200\nzswap 300\nzswapped 4000\nswapcached 50\n";
    for (fake, group, stat, need) in [
        (FakeKernel::v2("/build"), "/build", v2, 1000 + 200 + 90_000 - 50),
        (
            FakeKernel::hybrid("/build", "/"),
            "/memory/build",
            "swap 1\ntotal_rss 1000\ntotal_swap 70000\n",
            71_500,
        ),
    ] {
        fake.write(&format!("/sys/fs/cgroup{group}/memory.stat"), stat);
        fake.write(&format!("/sys/fs/cgroup{group}/memory.swap.current"), "90000\n");
        let mut reader = reader(&fake);
        assert_eq!(reader.read().unwrap().need, need, "{group}");
        assert_eq!(reader.read_size().unwrap(), MemorySize { memory: 10_000, need }, "{group}");
    }
}

#[test]
fn v1_is_read_whole() {
    let mut reader = reader(&FakeKernel::hybrid("/build", "/jobs/7"));
    let expected = Reading {
        memory: 10_000,
        need: 1_600,
        memory_peak: Some(12_000),
        cpu_usec: 5_000,
        oom_kill: Some(1),
        reclaim_failures: Some(9),
        limit_hits: Some(9),
        limit_hits_above: Some(0),
        pages: pages("workingset_refault_file 30\npgmajfault 4\n"),
        major_faults: Some(4),
        ..Reading::default()
    };
    assert_eq!(reader.read().unwrap(), expected);
}

#[test]
fn a_missing_file_hides_only_its_own_number() {
    let v2 = || (FakeKernel::v2("/build"), "/sys/fs/cgroup/build");
    let v1 = || (FakeKernel::hybrid("/build", "/build"), "/sys/fs/cgroup/memory/build");
    let check = |(fake, base): (FakeKernel, &str), name: &str, need: u64, expected: [bool; 3]| {
        fake.remove(&format!("{base}/memory.{name}"));
        let reading = reader(&fake).read().unwrap();
        assert_eq!((reading.memory, reading.cpu_usec, reading.need), (10_000, 5_000, need), "without {name}");
        let known = [reading.memory_peak, reading.oom_kill, reading.reclaim_failures];
        assert_eq!(known.map(|number| number.is_some()), expected, "without {name}");
    };
    check(v2(), "peak", 1_600, [false, true, true]);
    check(v2(), "events", 1_600, [true, false, false]);
    check(v2(), "pressure", 1_600, [true, true, true]);
    check(v1(), "max_usage_in_bytes", 1_600, [false, true, true]);
    check(v1(), "oom_control", 1_600, [true, false, true]);
    check(v1(), "failcnt", 1_600, [true, true, false]);
    check(v1(), "kmem.usage_in_bytes", 1_100, [true, true, true]);
}

#[test]
fn a_counter_failing_later_is_absent() {
    let fake = FakeKernel::v2("/build");
    let mut reader = reader(&fake);
    for name in ["memory.peak", "memory.events", "memory.pressure", "cpu.stat"] {
        fake.write(&format!("/sys/fs/cgroup/build/{name}"), "\u{1}?\n");
    }
    let reading = reader.read().unwrap();
    assert_eq!((reading.need, reading.memory_peak, reading.oom_kill), (1_600, None, None));
    assert_eq!((reading.memory_stall_usec, reading.throttled_usec), (None, None));
}

#[test]
fn a_partly_visible_chain_is_marked_as_such() {
    let fake = FakeKernel::v2("/pod/build");
    fake.write("/sys/fs/cgroup/pod/cgroup.type", "domain\n");
    assert!(!reader(&fake).read().unwrap().sees_all_limits, "the pod has no memory.events.local");
    fake.write("/sys/fs/cgroup/pod/memory.events.local", "max 3\noom 2\noom_kill 0\n");
    let reading = reader(&fake).read().unwrap();
    assert_eq!((reading.sees_all_limits, reading.limit_hits_above), (true, Some(2)));
    assert_eq!(reading.reclaim_failures, Some(9), "the pod has no limit in force");
    fake.write("/sys/fs/cgroup/cgroup.type", "domain\n");
    assert!(!reader(&fake).read().unwrap().sees_all_limits, "what is mounted is not the root");
}

#[test]
fn v1_swap_limits_make_failure_counts_unreliable() {
    let fake = FakeKernel::hybrid("/build", "/build");
    fake.write("/sys/fs/cgroup/memory/release_agent", "\n");
    let dir = "/sys/fs/cgroup/memory/build";
    assert!(reader(&fake).read().unwrap().sees_all_limits);
    fake.write(&format!("{dir}/memory.limit_in_bytes"), "1000000\n");
    fake.write(&format!("{dir}/memory.memsw.limit_in_bytes"), "1000000\n");
    assert!(!reader(&fake).read().unwrap().sees_all_limits);
    fake.write(&format!("{dir}/memory.memsw.limit_in_bytes"), "2000000\n");
    assert!(reader(&fake).read().unwrap().sees_all_limits);
}

#[test]
fn what_the_kernel_does_not_have_is_absent() {
    let fake = FakeKernel::v2("/build");
    for name in ["memory.peak", "memory.events", "cpu.stat"] {
        fake.remove(&format!("/sys/fs/cgroup/build/{name}"));
    }
    let mut reader = reader(&fake);
    assert!(!reader.counts_cpu());
    let reading = reader.read().unwrap();
    assert_eq!((reading.memory_peak, reading.oom_kill, reading.reclaim_failures), (None, None, None));
    assert_eq!(reading.need, 1_600);
}

#[test]
fn without_memory_accounting_there_is_no_reader() {
    let fake = FakeKernel::v2("/build");
    fake.remove("/sys/fs/cgroup/build/memory.current");
    let groups = find(&fake.kernel(), "self").unwrap().unwrap();
    assert!(CgroupReader::open(&groups, &CgroupLimits::default()).unwrap().is_none());
}

#[test]
fn machine_wide_cpu_counters_are_not_used() {
    let fake = FakeKernel::hybrid("/build", "/");
    fake.write("/sys/fs/cgroup/cpuacct/release_agent", "\n");
    assert!(!reader(&fake).counts_cpu());
}

#[test]
fn failures_at_a_limit_above_are_counted_too() {
    let fake = FakeKernel::v2("/pod/build");
    fake.write("/sys/fs/cgroup/pod/memory.max", "20000\n");
    fake.write("/sys/fs/cgroup/pod/cgroup.type", "domain\n");
    fake.write("/sys/fs/cgroup/pod/memory.events.local", "low 0\nhigh 0\nmax 30\noom 0\noom_kill 0\n");
    assert_eq!(reader(&fake).read().unwrap().reclaim_failures, Some(39));
}

#[test]
fn unparsable_files_are_errors_with_their_path() {
    let fake = FakeKernel::v2("/build");
    let mut reader = reader(&fake);
    fake.write("/sys/fs/cgroup/build/memory.current", "lots\n");
    let error = reader.read().unwrap_err().to_string();
    assert!(error.contains("build/memory.current"), "{error}");
}
