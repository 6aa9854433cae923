//! Which way is taken on kernels of text files.

use super::*;
use crate::fake_kernel::FakeKernel;

#[test]
fn an_unsplittable_group_is_shared_without_the_limit() {
    let fake = FakeKernel::v2("/pod/build");
    fake.write("/sys/fs/cgroup/pod/memory.max", "1000000\n");
    let mut meter = Meter::prepare(&fake.kernel(), "01", Some(64 << 20));
    assert_eq!(meter.source(), Source::CgroupV2);
    assert_eq!(meter.limits().memory, Some(1_000_000));
    assert!(meter.no_limit().is_some());
    assert_eq!(meter.read().unwrap().need, 1_600);
    assert!(!fake.kernel().path("/sys/fs/cgroup/pod/build/plimsoll-01").try_exists().unwrap());
}

#[test]
fn others_memory_in_a_shared_group_is_excluded() {
    let fake = FakeKernel::v2("/build");
    let source = |procs: &str, kib: u64| {
        fake.write("/sys/fs/cgroup/build/cgroup.procs", procs);
        fake.write("/proc/77/status", &format!("Name:\tx\nRssAnon:\t{kib} kB\nRssShmem:\t1 kB\n"));
        Meter::prepare(&fake.kernel(), "01", None).source()
    };
    let own = std::process::id();
    assert_eq!(source(&format!("{own}\n"), 0), Source::CgroupV2);
    assert_eq!(source(&format!("{own}\n77\n"), 2_000), Source::CgroupV2);
    assert_eq!(source(&format!("{own}\n77\n"), 20_000), Source::ProcessTree);
    assert_eq!(source("0\n", 0), Source::ProcessTree, "the need of a hidden process is not known");
    let hidden = nix::unistd::getppid();
    let with_hidden = source(&format!("{own}\n{hidden}\n"), 0);
    assert_eq!(with_hidden, Source::ProcessTree, "nor of one that /proc does not show");
    assert_eq!(source(&format!("{own}\n{}\n", i32::MAX), 0), Source::CgroupV2, "it has ended");
}

#[test]
fn others_that_come_later_are_not_the_build() {
    let own = std::process::id().cast_signed();
    for (late, anon_kib) in [(78, 90_000), (78, 1_000), (0, 0)] {
        let fake = FakeKernel::v2("/build");
        let group = |file: &str, text: String| fake.write(&format!("/sys/fs/cgroup/build/{file}"), &text);
        group("memory.current", "900000000\n".to_owned());
        group("memory.stat", "anon 30000000\n".to_owned());
        fake.process([own, 1, own], [0; 4], 5_000);
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        meter.run_inside(|| fake.process([77, own, own], [0; 4], 20_000));
        group("cgroup.procs", format!("{own}\n77\n"));
        assert_eq!((meter.read().unwrap().need, meter.unmeasured()), (30_000_000, None));
        if late > 0 {
            fake.process([late, 1, late], [0; 4], anon_kib);
        }
        group("cgroup.procs", format!("{own}\n77\n{late}\n"));
        group("memory.stat", "anon 80000000\n".to_owned());
        let is_shared = anon_kib != 1_000;
        let expected = if is_shared { 20_008 << 10 } else { 80_000_000 };
        assert_eq!(meter.read_size().unwrap().need, expected, "{late} {anon_kib}: at once, as the need grew");
        let reading = meter.read().unwrap();
        assert_eq!((reading.need, reading.oom_kill.is_none()), (expected, is_shared), "{late} {anon_kib}");
        let what = meter.unmeasured().map(|(what, _text)| what);
        assert_eq!(what, is_shared.then_some(PartlyMeasured::SharedCgroup), "{late} {anon_kib}");
    }
}

#[test]
fn v1_without_an_own_group_is_shared() {
    let fake = FakeKernel::hybrid("/build", "/build");
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    assert_eq!(meter.source(), Source::CgroupV1);
    assert_eq!(meter.read().unwrap().cpu_usec, 5_000);
    assert!(meter.no_limit().is_none());
    assert!(!fake.kernel().path("/sys/fs/cgroup/cpuacct/build/plimsoll-01").try_exists().unwrap());
}

#[test]
fn machine_wide_counters_are_not_used() {
    let fake = FakeKernel::hybrid("/build", "/build");
    fake.write("/sys/fs/cgroup/memory/build/release_agent", "\n");
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    assert_eq!(meter.source(), Source::ProcessTree);
    assert_eq!(meter.read(), None, "a folder without processes measures nothing, and does no harm");
}

/// Not a promise: says what a reading costs here.
#[test]
#[ignore = "prints the cost of a reading; run it alone, with --release"]
fn cost_of_a_reading() {
    let mut meter = Meter::prepare(&Kernel::running(), &ulid::Ulid::new().to_string(), None);
    let clock = std::time::Instant::now;
    let start = clock();
    meter.run_inside(|| ());
    println!("in and out of the group: {:?}", start.elapsed());
    let mut tree = ProcessTree::of(&Kernel::running(), 1).unwrap();
    let mut time = |name: &str, read: &mut dyn FnMut(&mut Meter)| {
        let start = clock();
        (0..10_000).for_each(|_round| read(&mut meter));
        println!("{name}: {:.2} us", start.elapsed().as_secs_f64() * 100.0);
    };
    time("sample", &mut |meter| assert!(meter.read().is_some()));
    time("size", &mut |meter| assert!(meter.read_size().is_some()));
    let start = clock();
    (0..100).for_each(|_round| assert!(tree.read().is_ok()));
    println!("tree of all processes: {:.0} us", start.elapsed().as_secs_f64() * 10_000.0);
    meter.own_group.unwrap().discard();
}

#[test]
fn a_file_that_breaks_later_is_a_gap() {
    let fake = FakeKernel::v2("/build");
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    fake.write("/sys/fs/cgroup/build/memory.current", "?\n");
    assert_eq!(meter.read(), None);
    assert_eq!(meter.read_size(), None);
    fake.write("/sys/fs/cgroup/build/memory.current", "1700\n");
    assert_eq!(meter.read_size().unwrap().need, 1_600);
}

#[test]
fn a_too_small_limit_names_its_option() {
    assert_eq!(too_small(1), "--limit-memory is 1 B, and the least that can be set is 16 MiB");
}
