//! Texts as kernels write them.

use super::*;

#[test]
fn memberships_keep_colons_and_spaces_of_a_path() {
    let text =
        "4:memory:/process_api/55e8\n2:cpu,cpuacct:/a b:c\nnonsense\n1:name=systemd:/\n0::/user.slice\n";
    let found = parse_memberships(text);
    assert_eq!(found.len(), 4);
    assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
    assert_eq!(found[1].path, PathBuf::from("/a b:c"));
    assert!(found[3].controllers.is_empty());
}

#[test]
fn only_cgroup_mounts_are_parsed_and_unescaped() {
    let text = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 /docker/ab /sys/fs/my\\040cgroup/memory ro shared:9 master:2 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
        42 broken line\n";
    let found = parse_mounts(text);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].root, PathBuf::from("/docker/ab"));
    assert_eq!(found[0].point, PathBuf::from("/sys/fs/my cgroup/memory"));
    assert!(found[0].controllers.as_ref().unwrap().contains(&"memory".to_owned()));
    assert_eq!(found[1].controllers, None);
    assert_eq!(unescape("a\\134b\\0"), "a\\b\\0");
}

#[test]
fn a_huge_number_or_max_is_no_limit() {
    assert_eq!(parse_memory_limit("9223372036854771712\n"), None);
    assert_eq!(parse_memory_limit("max\n"), None);
    assert_eq!(parse_memory_limit("2147483648\n"), Some(2 << 30));
}

#[test]
fn cpu_limits_are_cores() {
    assert_eq!(parse_cpu_max("max 100000\n"), None);
    assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
    assert_eq!(parse_cpu_quota("-1\n", "100000\n"), None);
    assert_eq!(parse_cpu_quota("50000\n", "100000\n"), Some(0.5));
    assert_eq!(parse_cpu_quota("50000\n", "0\n"), None);
}

#[test]
fn need_v2_leaves_out_everything_reclaimable() {
    let stat = "anon 1000\nfile 5000\nkernel 300\nkernel_stack 10\npagetables 20\nsec_pagetables 0\npercpu 5\nsock 7\n\
        shmem 100\nfile_mapped 1\ninactive_anon 600\nactive_anon 500\ninactive_file 4000\nactive_file 900\n\
        unevictable 0\nslab_reclaimable 200\nslab_unreclaimable 65\nslab 265\nnew_field_of_tomorrow 9\n";
    assert_eq!(parse_stat_v2(stat).need_v2(), 1000 + 100 + (300 - 200) + 7);
    let older: String = stat.split_inclusive('\n').filter(|line| !line.starts_with("kernel ")).collect();
    assert_eq!(parse_stat_v2(&older).need_v2(), 1000 + 100 + (10 + 20 + 5 + 65) + 7);
}

#[test]
fn locked_pages_count_exactly_once() {
    let base = "anon 1000\nshmem 0\nfile 500\n";
    let locked_anon = format!("{base}inactive_anon 600\nactive_anon 0\nunevictable 400\n");
    assert_eq!(parse_stat_v2(&locked_anon).need_v2(), 1000);
    let locked_file = format!("{base}inactive_anon 900\nactive_anon 100\nunevictable 300\n");
    assert_eq!(parse_stat_v2(&locked_file).need_v2(), 1300);
}

#[test]
fn need_v1_is_hierarchical_and_adds_kernel_memory() {
    let stat = "cache 1\nrss 2\nshmem 3\ninactive_anon 2\nhierarchical_memory_limit 9223372036854771712\n\
        total_cache 5000\ntotal_rss 700\ntotal_shmem 30\ntotal_inactive_anon 700\ntotal_active_anon 30\n\
        total_unevictable 0\n";
    assert_eq!(parse_stat_v1(stat).need_v1(11, 1), 741);
    assert_eq!(parse_field(stat, "hierarchical_memory_limit"), Some(9_223_372_036_854_771_712));
    assert_eq!(parse_field(stat, "oom_kill"), None);
}

#[test]
fn cached_v1_kernel_names_are_not_need() {
    let stat = parse_stat_v1("total_rss 64000000\n");
    let bound = stat.kernel_bound_v1(10);
    assert_eq!(bound, (16 << 20) + 10 * (512 << 10) + 1_000_000);
    let most = 64_000_000 + bound - 1;
    assert_eq!(stat.need_v1(bound - 1, 10), most, "that much may be stacks and page tables");
    assert_eq!(stat.need_v1(1 << 40, 10), 64_000_000 + bound);
}

#[test]
fn numbers_that_no_machine_can_have_are_skipped() {
    let stat = format!("anon {0}\nshmem {0}\nkernel {0}\nfile 7\n", u64::MAX);
    assert_eq!(parse_stat_v2(&stat).need_v2(), 0);
    assert_eq!(parse_stat_v1(&format!("total_rss {0}\ntotal_shmem {0}\n", u64::MAX)).need_v1(0, u64::MAX), 0);
}

#[test]
fn refaults_are_those_of_files_and_of_swap() {
    let new = parse_stat_v2("workingset_refault_anon 3\nworkingset_refault_file 4\npgmajfault 9\n");
    assert_eq!((new.pages.refaults, new.major_faults()), (Some(7), Some(9)));
    assert_eq!(parse_stat_v1("total_workingset_refault 5\n").pages.refaults, Some(5));
    assert_eq!(parse_stat_v1("total_rss 5\n").pages.refaults, None);
}

#[test]
fn memory_stall_is_the_full_total() {
    let text =
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=1.50 avg60=0.00 avg300=0.00 total=42\n";
    assert_eq!(parse_pressure_full(text), Some(42));
    assert_eq!(parse_pressure_full("some avg10=0.00 total=77\n"), None);
}
