//! The texts of the kernel, turned into numbers. Pure: no file is touched here.
//!
//! Formats: `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst` and `filesystems/proc.rst` of the kernel. Unknown
//! keys and lines that do not parse are skipped, because every kernel adds some.

use std::path::PathBuf;

use plimsoll_proto::limits;

/// One line of `/proc/PID/cgroup`: where a process is in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    /// Controllers of a v1 hierarchy; empty for v2.
    pub(super) controllers: Vec<String>,
    /// Path below the root of the hierarchy, as the reader's cgroup namespace sees it.
    pub(super) path: PathBuf,
}

/// A mounted cgroup hierarchy, from `/proc/PID/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Which part of the hierarchy is mounted.
    pub(super) root: PathBuf,
    /// Where it is mounted.
    pub(super) point: PathBuf,
    /// Controllers of a v1 hierarchy; `None` for v2.
    pub(super) controllers: Option<Vec<String>>,
}

/// Parses `/proc/PID/cgroup`. The path is the rest of the line: names may contain colons and spaces.
pub(super) fn parse_memberships(text: &str) -> Vec<Membership> {
    let line = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Membership { controllers: parse_list(controllers), path: path.into() })
    };
    text.lines().filter_map(line).collect()
}

/// Parses the cgroup mounts of `/proc/PID/mountinfo`:
/// `31 23 0:28 ROOT POINT OPTIONS [TAGS ...] - TYPE DEVICE SUPER_OPTIONS`.
pub(super) fn parse_mounts(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut kind = kind.split(' ');
        let controllers = match kind.next()? {
            "cgroup" => Some(parse_list(kind.nth(1)?)),
            "cgroup2" => None,
            _other => return None,
        };
        Some(Mount { root: root.into(), point: point.into(), controllers })
    };
    text.lines().filter_map(line).collect()
}

fn parse_list(text: &str) -> Vec<String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Turns `\040` back into a space: mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (code, after.get(3..)) {
            (Some(code), Some(end)) => {
                plain.push(char::from(code));
                rest = end;
            }
            _other => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The `name number` lines of `memory.stat`, `memory.events`, `memory.oom_control`, `cpu.stat`.
fn fields(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.trim().parse().ok()?))
    })
}

/// One number of a file of `name number` lines.
pub(super) fn parse_field(text: &str, name: &str) -> Option<u64> {
    fields(text).find_map(|(found, number)| (found == name).then_some(number))
}

/// A memory limit. v2 writes `max` for none, v1 a number near 2^63; nobody has more than [`limits::MEMORY_BYTES`].
pub(super) fn parse_memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < limits::MEMORY_BYTES)
}

/// Cores that v2 `cpu.max` grants: `QUOTA PERIOD`, the quota `max` for no limit.
pub(super) fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    parse_cpu_quota(quota, period)
}

/// Cores that v1 `cpu.cfs_quota_us` over `cpu.cfs_period_us` grants; a quota of -1 is no limit.
pub(super) fn parse_cpu_quota(quota: &str, period: &str) -> Option<f64> {
    // 32 bits hold more than an hour in microseconds, and convert without loss
    let quota: u32 = quota.trim().parse().ok()?;
    let period: u32 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// What `memory.stat` says about memory that the kernel cannot take back without killing or swapping, and about the trouble of
/// taking back the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stat {
    anon: u64,
    shmem: u64,
    /// Page cache, shared memory included.
    file: u64,
    /// Page cache that is mapped; v1 only.
    mapped: u64,
    anon_lists: u64,
    unevictable: u64,
    /// v2: all kernel memory, where the kernel says so (Linux 5.18).
    kernel: Option<u64>,
    slab_reclaimable: u64,
    /// v2: the parts of kernel memory, on older kernels.
    kernel_parts: u64,
    /// v2: network buffers, which `kernel` does not include.
    sock: u64,
    /// Pages that were dropped and wanted again.
    pub(super) refaults: Option<u64>,
    /// Page faults that waited for a disk.
    pub(super) major_faults: Option<u64>,
}

impl Stat {
    /// File pages that are locked in memory. `unevictable` counts pages of every kind, so what is locked of anonymous and
    /// shared memory (what these have beyond their own lists) is taken off: it is in `anon` and `shmem` already.
    fn unevictable_file(&self) -> u64 {
        let counted = (self.anon + self.shmem).saturating_sub(self.anon_lists);
        self.unevictable.saturating_sub(counted).min(self.file.saturating_sub(self.shmem))
    }

    /// The need on v2: anonymous + shared + kernel memory, without what can be reclaimed.
    pub(super) fn need_v2(&self) -> u64 {
        let kernel = self.kernel.map_or(self.kernel_parts, |all| all.saturating_sub(self.slab_reclaimable));
        self.anon + self.shmem + kernel + self.sock + self.unevictable_file()
    }

    /// The need on v1, of the group and all below it, where the kernel holds `kernel` bytes for it and it has `tasks` threads.
    ///
    /// v1 does not say which part of the kernel memory could be reclaimed (`memory.kmem.slabinfo` is empty since Linux 5.9): a
    /// build that opens 100,000 files seems to hold 140 MB, which the kernel takes back when it wants to. What cannot be
    /// reclaimed grows with threads and pages; see [`Stat::kernel_bound_v1`]. More than that is counted as file names and inodes.
    pub(super) fn need_v1(&self, kernel: u64, tasks: u64) -> u64 {
        let kernel = kernel.min(self.kernel_bound_v1(tasks));
        self.anon + self.shmem + kernel + self.unevictable_file()
    }

    /// Generous bound of the unreclaimable kernel memory of `tasks` threads. Measured on Linux 6.18: 91 KiB for a process, 22 KiB
    /// for a thread, 2 MiB of page tables for 1 GiB (1/512), 64 KiB for a full pipe, 1.4 KiB for an opened file.
    pub(super) fn kernel_bound_v1(&self, tasks: u64) -> u64 {
        const BASE: u64 = 16 << 20;
        const TASK: u64 = 512 << 10;
        const PAGE_TABLES: u64 = 64;
        let pages = self.anon.saturating_add(self.shmem).saturating_add(self.mapped);
        BASE.saturating_add(TASK.saturating_mul(tasks)).saturating_add(pages / PAGE_TABLES)
    }
}

/// Parses v2 `memory.stat`. Every number is far below 2^63, or is skipped, so that sums cannot overflow.
pub(super) fn parse_stat_v2(text: &str) -> Stat {
    let mut stat = Stat::default();
    for (name, number) in fields(text).filter(|&(_name, number)| number < limits::MEMORY_BYTES) {
        match name {
            "anon" => stat.anon = number,
            "shmem" => stat.shmem = number,
            "file" => stat.file = number,
            "inactive_anon" | "active_anon" => stat.anon_lists += number,
            "unevictable" => stat.unevictable = number,
            "kernel" => stat.kernel = Some(number),
            "slab_reclaimable" => stat.slab_reclaimable = number,
            "sock" => stat.sock = number,
            "kernel_stack" | "pagetables" | "percpu" | "slab_unreclaimable" => stat.kernel_parts += number,
            // before Linux 5.9 there was one for both kinds
            "workingset_refault" | "workingset_refault_file" | "workingset_refault_anon" => {
                stat.refaults = Some(stat.refaults.unwrap_or(0) + number);
            }
            "pgmajfault" => stat.major_faults = Some(number),
            _other => {}
        }
    }
    stat
}

/// Parses v1 `memory.stat`, of the group and all below it (`total_`). `rss` is the anonymous memory (huge pages included), `cache`
/// the page cache with shared memory.
pub(super) fn parse_stat_v1(text: &str) -> Stat {
    let mut stat = Stat::default();
    for (name, number) in fields(text).filter(|&(_name, number)| number < limits::MEMORY_BYTES) {
        match name {
            "total_rss" => stat.anon = number,
            "total_shmem" => stat.shmem = number,
            "total_cache" => stat.file = number,
            "total_mapped_file" => stat.mapped = number,
            "total_inactive_anon" | "total_active_anon" => stat.anon_lists += number,
            "total_unevictable" => stat.unevictable = number,
            "total_workingset_refault"
            | "total_workingset_refault_file"
            | "total_workingset_refault_anon" => {
                stat.refaults = Some(stat.refaults.unwrap_or(0) + number);
            }
            "total_pgmajfault" => stat.major_faults = Some(number),
            _other => {}
        }
    }
    stat
}

/// The `total` of the line `full` of a pressure file: microseconds in which all tasks stood still
/// (`Documentation/accounting/psi.rst`).
pub(super) fn parse_pressure_full(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
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
    fn mounts_are_those_of_cgroups_with_their_escapes_undone() {
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
    fn locked_file_pages_count_once_and_locked_anonymous_memory_not_twice() {
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
    fn names_of_files_that_the_v1_kernel_remembers_are_no_need() {
        let stat = parse_stat_v1("total_rss 64000000\n");
        let bound = stat.kernel_bound_v1(10);
        assert_eq!(bound, (16 << 20) + 10 * (512 << 10) + 1_000_000);
        assert_eq!(
            stat.need_v1(bound - 1, 10),
            64_000_000 + bound - 1,
            "that much may be stacks and page tables"
        );
        assert_eq!(stat.need_v1(1 << 40, 10), 64_000_000 + bound);
    }

    #[test]
    fn numbers_that_nobody_can_have_are_skipped() {
        let stat = format!("anon {0}\nshmem {0}\nkernel {0}\nfile 7\n", u64::MAX);
        assert_eq!(parse_stat_v2(&stat).need_v2(), 0);
        assert_eq!(
            parse_stat_v1(&format!("total_rss {0}\ntotal_shmem {0}\n", u64::MAX)).need_v1(0, u64::MAX),
            0
        );
    }

    #[test]
    fn refaults_are_those_of_files_and_of_swap() {
        let new = parse_stat_v2("workingset_refault_anon 3\nworkingset_refault_file 4\npgmajfault 9\n");
        assert_eq!((new.refaults, new.major_faults), (Some(7), Some(9)));
        assert_eq!(parse_stat_v1("total_workingset_refault 5\n").refaults, Some(5));
        assert_eq!(parse_stat_v1("total_rss 5\n").refaults, None);
    }

    #[test]
    fn the_stall_is_the_total_of_the_line_full() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=1.50 avg60=0.00 avg300=0.00 total=42\n";
        assert_eq!(parse_pressure_full(text), Some(42));
        assert_eq!(parse_pressure_full("some avg10=0.00 total=77\n"), None);
    }
}
