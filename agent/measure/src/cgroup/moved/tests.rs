//! Processes that leave the group of their build, on kernels of text files.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::{fake_kernel::FakeKernel, meter::Meter, sampler::Sampler};

const SCOPE: &str = "/machine.slice/machine-4c26.scope";

/// A v2 kernel whose group `/build` has a need of 1,600, with the processes 100 (mock) and 101 (nspawn) of this one.
fn kernel_with_nspawn() -> FakeKernel {
    let fake = FakeKernel::v2("/build");
    process(&fake, 100, own(), "/build");
    process(&fake, 101, 100, "/build");
    fake.write("/sys/fs/cgroup/build/cgroup.procs", &format!("{}\n", own()));
    fake
}

fn own() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

fn process(fake: &FakeKernel, pid: i32, parent: i32, group: &str) {
    process_in_state(fake, pid, parent, 'S');
    fake.write(&format!("/proc/{pid}/cgroup"), &format!("0::{group}\n"));
}

fn process_in_state(fake: &FakeKernel, pid: i32, parent: i32, state: char) {
    let zeros = "0 ".repeat(48);
    fake.write(&format!("/proc/{pid}/stat"), &format!("{pid} (a) {state} {parent} {zeros}\n"));
}

/// A group with this need, peak, CPU time and kills, and its processes; more memory below it counts too, as the kernel does.
fn group(fake: &FakeKernel, path: &str, [need, peak, cpu, kills]: [u64; 4], procs: &str) {
    let file = |name: &str, text: &str| fake.write(&format!("/sys/fs/cgroup{path}/{name}"), text);
    file("cgroup.type", "domain\n");
    file("memory.current", &format!("{}\n", need + 5_000));
    file("memory.stat", &format!("anon {need}\nfile 5000\nkernel 0\nshmem 0\nslab_reclaimable 0\n"));
    file("memory.peak", &format!("{peak}\n"));
    file("memory.events", &format!("low 0\nhigh 0\nmax 0\noom {kills}\noom_kill {kills}\n"));
    file("cpu.stat", &format!("usage_usec {cpu}\n"));
    file("cgroup.procs", procs);
}

fn measured(fake: &FakeKernel) -> Meter {
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    meter.run_inside(|| ());
    meter
}

/// Such a kernel, with a meter and its first reading.
fn measured_nspawn() -> (FakeKernel, Meter, Reading) {
    let fake = kernel_with_nspawn();
    let mut meter = measured(&fake);
    let alone = meter.read().unwrap();
    (fake, meter, alone)
}

/// Readings until one looks for processes again.
fn next_look(meter: &mut Meter) -> Reading {
    (1..READINGS_PER_LOOK).for_each(|_n| assert!(meter.read().is_some()));
    meter.read().unwrap()
}

#[test]
fn an_nspawn_container_counts_even_after_it_ends() {
    let (fake, mut meter, alone) = measured_nspawn();
    // the payload is below the scope, and the counters of the scope include it
    group(&fake, SCOPE, [70_000, 90_000, 4_000, 2], "");
    group(&fake, &format!("{SCOPE}/payload"), [70_000, 90_000, 4_000, 2], "102\n103\n");
    process(&fake, 102, 101, &format!("{SCOPE}/payload"));
    process(&fake, 103, 102, &format!("{SCOPE}/payload"));
    // nspawn itself may be in another group of the scope, which counts once
    process(&fake, 101, 100, &format!("{SCOPE}/supervisor"));
    group(&fake, &format!("{SCOPE}/supervisor"), [500, 500, 10, 0], "101\n");
    let with = next_look(&mut meter);
    assert_eq!(with.need, alone.need + 70_000);
    assert_eq!(with.memory, alone.memory + 75_000);
    assert_eq!((with.cpu_usec, with.oom_kill), (alone.cpu_usec + 4_000, Some(1 + 2)));
    assert_eq!(with.memory_peak, Some(90_000), "no more than was seen at one time");
    assert_eq!(meter.read_size().unwrap().need, with.need);
    assert_eq!(meter.unmeasured(), None);
    group(&fake, SCOPE, [0, 120_000, 9_000, 3], "");
    assert_eq!(meter.read().unwrap().cpu_usec, alone.cpu_usec + 9_000);
    // the kernel's files of a removed group cannot be read
    fake.write(&format!("/sys/fs/cgroup{SCOPE}/memory.current"), "?\n");
    let after = meter.read().unwrap();
    assert_eq!((after.need, after.memory), (alone.need, alone.memory));
    assert_eq!((after.cpu_usec, after.oom_kill), (alone.cpu_usec + 9_000, Some(1 + 3)));
}

#[test]
fn groups_shared_with_others_are_excluded_and_reported() {
    let (fake, mut meter, alone) = measured_nspawn();
    // 200 is a child of another process, 0 is one that is not visible here
    for (path, procs) in [("/shared", "102\n200\n"), ("/hidden", "102\n0\n")] {
        process(&fake, 200, 1, path);
        process(&fake, 102, 101, path);
        group(&fake, path, [70_000, 90_000, 4_000, 2], procs);
        assert_eq!(next_look(&mut meter), alone);
    }
    let (_what, notice) = meter.unmeasured().unwrap();
    assert!(notice.contains("/shared") && notice.contains("not measured"), "{notice}");
}

#[test]
fn an_existing_group_counts_only_after_joining() {
    let (fake, mut meter, alone) = measured_nspawn();
    group(&fake, "/reused", [70_000, 900_000, 4_000, 2], "102\n");
    process(&fake, 102, 101, "/reused");
    let found = next_look(&mut meter);
    assert_eq!((found.need, found.cpu_usec), (alone.need + 70_000, alone.cpu_usec));
    assert_eq!((found.oom_kill, found.memory_peak), (alone.oom_kill, Some(found.memory)));
    group(&fake, "/reused", [80_000, 900_000, 4_500, 3], "102\n");
    let later = meter.read().unwrap();
    assert_eq!((later.need, later.cpu_usec), (alone.need + 80_000, alone.cpu_usec + 500));
    assert_eq!(later.oom_kill, Some(2));
}

#[test]
fn nested_and_enclosing_groups_count_once() {
    let (fake, mut meter, alone) = measured_nspawn();
    group(&fake, "/build/payload", [1_000, 2_000, 100, 0], "102\n");
    process(&fake, 102, 101, "/build/payload");
    assert_eq!(next_look(&mut meter), alone, "with --keep-unit the kernel adds them up");
    group(&fake, "/plimsoll-00", [1_000, 2_000, 100, 0], "103\n");
    process(&fake, 103, own(), "/plimsoll-00");
    assert_eq!(next_look(&mut meter), alone, "a daemon of an earlier attempt is not of this one");
    assert_eq!(meter.unmeasured(), None);
}

#[test]
fn a_group_that_cannot_be_read_is_named() {
    let fake = kernel_with_nspawn();
    let mut meter = measured(&fake);
    fake.write(&format!("/sys/fs/cgroup{SCOPE}/cgroup.procs"), "102\n");
    fake.write(&format!("/sys/fs/cgroup{SCOPE}/cgroup.type"), "domain\n");
    process(&fake, 102, 101, SCOPE);
    next_look(&mut meter);
    let (_what, notice) = meter.unmeasured().unwrap();
    assert!(notice.contains(SCOPE) && notice.contains("cannot be read"), "{notice}");
}

#[test]
fn moves_in_one_v1_hierarchy_count_cpu_once() {
    let fake = FakeKernel::hybrid("/build", "/build");
    fake.write("/sys/fs/cgroup/memory/build/cgroup.procs", &format!("{}\n", own()));
    process(&fake, 100, own(), "/");
    fake.write("/proc/100/cgroup", "4:memory:/other\n2:cpuacct:/build\n0::/\n");
    let file = |name: &str, text: &str| fake.write(&format!("/sys/fs/cgroup/memory/other/{name}"), text);
    file("cgroup.procs", "100\n");
    file("tasks", "100\n");
    file("memory.usage_in_bytes", "75000\n");
    file("memory.stat", "total_cache 5000\ntotal_rss 70000\ntotal_active_anon 70000\n");
    file("memory.max_usage_in_bytes", "90000\n");
    file("memory.failcnt", "0\n");
    file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    file("memory.limit_in_bytes", "9223372036854771712\n");
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    let alone = meter.read().unwrap();
    meter.run_inside(|| ());
    let with = next_look(&mut meter);
    assert_eq!((with.memory, with.cpu_usec), (alone.memory + 75_000, alone.cpu_usec));
    assert_eq!(with.need, alone.need + 70_000);
}

#[test]
fn an_exiting_process_is_not_a_moved_one() {
    let fake = kernel_with_nspawn();
    fake.write("/sys/fs/cgroup/cgroup.procs", "1\n");
    let mut meter = measured(&fake);
    meter.read().unwrap();
    process(&fake, 102, 101, "/");
    process_in_state(&fake, 102, 101, 'Z');
    next_look(&mut meter);
    next_look(&mut meter);
    assert_eq!(meter.unmeasured(), None, "a zombie");
    process_in_state(&fake, 102, 101, 'R');
    next_look(&mut meter);
    assert_eq!(meter.unmeasured(), None, "it may just be ending");
    next_look(&mut meter);
    assert!(meter.unmeasured().unwrap().1.contains("the cgroup /,"), "{:?}", meter.unmeasured());
}

#[test]
fn running_groups_count_once_after_another_ends() {
    let (fake, mut meter, alone) = measured_nspawn();
    for (pid, path) in [(102, "/a.scope"), (103, "/b.scope")] {
        group(&fake, path, [70_000, 90_000, 4_000, 0], &format!("{pid}\n"));
        process(&fake, pid, 101, path);
    }
    assert_eq!(next_look(&mut meter).need, alone.need + 140_000);
    fake.write("/sys/fs/cgroup/a.scope/memory.current", "?\n");
    process(&fake, 102, 101, "/build");
    next_look(&mut meter);
    let later = next_look(&mut meter);
    assert_eq!((later.need, later.cpu_usec), (alone.need + 70_000, alone.cpu_usec + 8_000));
}

#[test]
fn unmeasured_groups_make_kills_unknown() {
    let finished = |procs: &str| {
        let fake = kernel_with_nspawn();
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        let (before, ()) = meter.run_inside(|| ());
        process(&fake, 200, 1, SCOPE);
        process(&fake, 102, 101, SCOPE);
        group(&fake, SCOPE, [70_000, 90_000, 4_000, 0], procs);
        let measured = Sampler::new(meter, before, Instant::now(), Duration::from_secs(1)).finish();
        let last = measured.last.unwrap();
        (measured.totals.oom_kill, measured.totals.oom_group_kill, last.oom_kill, measured.offloaded_to)
    };
    assert_eq!(finished("102\n"), (Some(0), Some(0), Some(0), None));
    assert_eq!(finished("102\n200\n"), (None, None, None, Some("another-cgroup")));
}

#[test]
fn a_group_joined_by_others_keeps_its_counts() {
    let (fake, mut meter, alone) = measured_nspawn();
    group(&fake, SCOPE, [70_000, 90_000, 4_000, 0], "102\n");
    process(&fake, 102, 101, SCOPE);
    assert_eq!(next_look(&mut meter).need, alone.need + 70_000);
    // it lost its parent, and is of the build all the same
    process(&fake, 102, 1, SCOPE);
    assert_eq!(next_look(&mut meter).need, alone.need + 70_000);
    assert_eq!(meter.unmeasured(), None);
    process(&fake, 200, 1, SCOPE);
    group(&fake, SCOPE, [80_000, 90_000, 9_000, 0], "102\n200\n");
    next_look(&mut meter);
    group(&fake, SCOPE, [90_000, 90_000, 20_000, 0], "102\n200\n");
    let given_up = meter.read().unwrap();
    assert_eq!((given_up.need, given_up.cpu_usec), (alone.need, alone.cpu_usec + 9_000));
    assert!(meter.unmeasured().unwrap().1.contains(SCOPE), "{:?}", meter.unmeasured());
}

#[test]
fn an_abandoned_group_is_dropped_unless_a_scope() {
    let (fake, mut meter, alone) = measured_nspawn();
    for path in ["/reused", SCOPE] {
        process(&fake, 102, 101, path);
        group(&fake, path, [70_000, 90_000, 4_000, 0], "102\n");
        next_look(&mut meter);
        process(&fake, 102, 101, "/build");
        group(&fake, path, [70_000, 90_000, 4_000, 0], "");
        let expected = if path == SCOPE { alone.need + 70_000 } else { alone.need };
        assert_eq!(next_look(&mut meter).need, expected, "{path}");
    }
    assert_eq!(meter.unmeasured(), None);
}

#[test]
fn earlier_failures_at_a_scopes_limits_are_excluded() {
    let (fake, mut meter, alone) = measured_nspawn();
    let slice = |text: &str| fake.write("/sys/fs/cgroup/machine.slice/memory.events.local", text);
    slice("max 700\noom 5\n");
    fake.write("/sys/fs/cgroup/machine.slice/cgroup.type", "domain\n");
    fake.write("/sys/fs/cgroup/machine.slice/memory.max", "100000\n");
    process(&fake, 102, 101, SCOPE);
    group(&fake, SCOPE, [70_000, 90_000, 4_000, 0], "102\n");
    let found = next_look(&mut meter);
    assert_eq!(found.need, alone.need + 70_000);
    assert_eq!(found.limit_hits_above, alone.limit_hits_above);
    assert_eq!(found.reclaim_failures, alone.reclaim_failures);
    slice("max 900\noom 6\n");
    let later = meter.read().unwrap();
    assert_eq!(later.limit_hits_above.unwrap(), alone.limit_hits_above.unwrap() + 1);
    assert_eq!(later.reclaim_failures, alone.reclaim_failures);
}

#[test]
fn at_most_32_moved_groups_are_measured() {
    let (fake, mut meter, alone) = measured_nspawn();
    for pid in 1000..1033 {
        let path = format!("/box-{pid}.scope");
        process(&fake, pid, 101, &path);
        group(&fake, &path, [1_000, 1_000, 10, 0], &format!("{pid}\n"));
    }
    assert_eq!(next_look(&mut meter).need, alone.need + 32_000);
    assert!(meter.unmeasured().unwrap().1.contains("too many such groups"), "{:?}", meter.unmeasured());
}

#[test]
fn a_group_appearing_later_is_still_measured() {
    let (fake, mut meter, alone) = measured_nspawn();
    process(&fake, 102, 101, SCOPE);
    next_look(&mut meter);
    assert_eq!(meter.unmeasured(), None);
    group(&fake, SCOPE, [70_000, 90_000, 4_000, 0], "102\n");
    assert_eq!(next_look(&mut meter).need, alone.need + 70_000);
}

#[test]
fn processes_already_read_are_not_read_again() {
    let fake = kernel_with_nspawn();
    let home = find(&fake.kernel(), "self").unwrap().unwrap();
    let mut moved = MovedGroups::of_this_process(&fake.kernel(), &home);
    // process 1 runs, and cannot be read there
    group(&fake, "/large.scope", [0; 4], "1\n");
    let large = Cgroup { dir: home.memory.dir.with_file_name("large.scope"), ..home.memory };
    assert_eq!(moved.members_of_build(&large, &BTreeSet::new()), None);
    moved.descendants.insert(1);
    assert_eq!(moved.members_of_build(&large, &BTreeSet::new()), Some(BTreeSet::from([1])));
}

#[test]
fn a_group_merged_into_its_parent_keeps_counts() {
    let (fake, mut meter, alone) = measured_nspawn();
    group(&fake, "/a/b", [70_000, 90_000, 4_000, 2], "102\n");
    process(&fake, 102, 101, "/a/b");
    next_look(&mut meter);
    group(&fake, "/a/b", [70_000, 90_000, 4_500, 3], "102\n");
    group(&fake, "/a", [80_000, 90_000, 9_000, 3], "103\n");
    process(&fake, 103, 101, "/a");
    let both = next_look(&mut meter);
    assert_eq!((both.need, both.cpu_usec), (alone.need + 80_000, alone.cpu_usec + 500));
    assert_eq!(both.oom_kill, Some(1 + 1));
}
