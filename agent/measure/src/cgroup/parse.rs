//! Parses the texts of the kernel's files. Pure: it reads no file.
//!
//! Formats: `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst` and `filesystems/proc.rst` of the kernel. Unknown keys and
//! lines that do not parse are skipped, because every kernel adds some.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use plimsoll_proto::{counters::PageCounters, limits};

/// One line of `/proc/PID/cgroup`: the group of a process in one hierarchy.
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
    /// The path within the hierarchy that is mounted here.
    pub(super) root: PathBuf,
    /// The folder where the hierarchy is mounted.
    pub(super) point: PathBuf,
    /// Controllers of a v1 hierarchy; `None` for v2.
    pub(super) controllers: Option<Vec<String>>,
}

/// Parses `/proc/PID/cgroup`. The path is the whole rest of the line, because names may contain colons and spaces.
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

/// Replaces escapes such as `\040` by the character: mountinfo writes space, tab, newline and backslash as three octal digits.
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

/// Parses the lines `name number` of `memory.stat`, `memory.events`, `memory.oom_control` and `cpu.stat`.
fn fields(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.trim().parse().ok()?))
    })
}

/// The number with this name in a file of lines `name number`.
pub(super) fn parse_field(text: &str, name: &str) -> Option<u64> {
    fields(text).find_map(|(found, number)| (found == name).then_some(number))
}

/// Number of charges that failed without reclaim, from v2 `memory.events`: at `memory.max` and at `memory.high`.
pub(super) fn failed_charges(text: &str) -> Option<u64> {
    Some(parse_field(text, "max")?.saturating_add(parse_field(text, "high").unwrap_or(0)))
}

/// Parses a memory limit; `None` for no limit. v2 writes `max` for no limit, v1 a number near 2^63; no machine has more than
/// [`limits::MEMORY_BYTES`].
pub(super) fn parse_memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < limits::MEMORY_BYTES)
}

/// The number of cores that v2 `cpu.max` allows. The file has `QUOTA PERIOD`; the quota `max` means no limit.
pub(super) fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    parse_cpu_quota(quota, period)
}

/// The number of cores that v1 allows: `cpu.cfs_quota_us` divided by `cpu.cfs_period_us`. A quota of -1 means no limit.
pub(super) fn parse_cpu_quota(quota: &str, period: &str) -> Option<f64> {
    // 32 bits are enough for more than an hour in microseconds, and convert to a float without loss
    let quota: u32 = quota.trim().parse().ok()?;
    let period: u32 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// Values of `memory.stat`: memory that the kernel cannot reclaim without killing or swapping, and how much the kernel had to reclaim of
/// the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryStat {
    anon: u64,
    shmem: u64,
    /// Page cache, including shared memory.
    file: u64,
    /// Page cache that processes have mapped; v1 only.
    mapped: u64,
    anon_lists: u64,
    unevictable: u64,
    /// v2: all kernel memory, if the kernel reports it (from Linux 5.18 on).
    kernel: Option<u64>,
    slab_reclaimable: u64,
    /// v2: the sum of the parts of kernel memory, used on older kernels.
    kernel_parts: u64,
    /// v2: network buffers, which `kernel` does not include.
    sock: u64,
    /// v2: compressed bytes of swapped memory (zswap), which `kernel` includes.
    zswap: u64,
    /// v2: swapped memory that is also in memory again.
    swap_cached: u64,
    /// v1: memory in swap; v2 has it in a file of its own.
    swap: u64,
    /// Page counters that are reported unchanged.
    pub(super) pages: PageCounters,
}

impl MemoryStat {
    /// Number of page faults for which a page was read from a disk.
    pub(super) fn major_faults(&self) -> Option<u64> {
        self.pages.pgmajfault
    }

    /// Bytes of file pages that are locked in memory. `unevictable` also includes locked anonymous and shared memory. That part is
    /// subtracted, because `anon` and `shmem` include it: it is what these two count and `anon_lists` does not.
    fn unevictable_file(&self) -> u64 {
        let counted = (self.anon + self.shmem).saturating_sub(self.anon_lists);
        self.unevictable.saturating_sub(counted).min(self.file.saturating_sub(self.shmem))
    }

    /// Bytes of the build that are only in swap, in zswap or on a disk. `v2`: `memory.swap.current`, which includes what zswap holds.
    pub(super) fn swapped(&self, v2: u64) -> u64 {
        v2.saturating_sub(self.swap_cached).saturating_add(self.swap)
    }

    /// The need on v2 without swap: anonymous, shared and kernel memory, without the part that can be reclaimed.
    pub(super) fn need_v2(&self) -> u64 {
        let kernel = self.kernel.map_or(self.kernel_parts, |all| {
            all.saturating_sub(self.slab_reclaimable.saturating_add(self.zswap))
        });
        self.anon + self.shmem + kernel + self.sock + self.unevictable_file()
    }

    /// The need on v1, without swap, of the group and all groups below it. `kernel`: bytes of kernel memory; `tasks`: number of threads.
    ///
    /// v1 does not report which part of the kernel memory could be reclaimed (`memory.kmem.slabinfo` is empty since Linux 5.9): a build
    /// that opens 100,000 files seems to hold 140 MB, which the kernel can reclaim at any time. The part that cannot be reclaimed grows
    /// with threads and pages, see [`MemoryStat::kernel_bound_v1`]. Kernel memory above that bound is taken to be file names and inodes,
    /// and not counted.
    pub(super) fn need_v1(&self, kernel: u64, tasks: u64) -> u64 {
        let kernel = kernel.min(self.kernel_bound_v1(tasks));
        self.anon + self.shmem + kernel + self.unevictable_file()
    }

    /// Upper bound, with a large margin, of the kernel memory of `tasks` threads that cannot be reclaimed, in bytes. Measured on Linux
    /// 6.18: 91 KiB for a process, 22 KiB for a thread, 2 MiB of page tables for 1 GiB (1/512), 64 KiB for a full pipe, 1.4 KiB for an
    /// opened file.
    pub(super) fn kernel_bound_v1(&self, tasks: u64) -> u64 {
        const BASE_BYTES: u64 = 16 << 20;
        const BYTES_PER_TASK: u64 = 512 << 10;
        const PAGE_TABLES: u64 = 64;
        let pages = self.anon.saturating_add(self.shmem).saturating_add(self.mapped);
        BASE_BYTES.saturating_add(BYTES_PER_TASK.saturating_mul(tasks)).saturating_add(pages / PAGE_TABLES)
    }
}

/// Parses v2 `memory.stat`.
pub(super) fn parse_stat_v2(text: &str) -> MemoryStat {
    parse_stat(text, "")
}

/// Parses v1 `memory.stat`: the values of the group and all groups below it (`total_`).
pub(super) fn parse_stat_v1(text: &str) -> MemoryStat {
    parse_stat(text, "total_")
}

/// Parses the values whose names begin with `prefix`. Numbers that are larger than any machine's memory are skipped, so that sums cannot
/// overflow. No name of one version means something else in the other.
fn parse_stat(text: &str, prefix: &str) -> MemoryStat {
    let mut stat = MemoryStat::default();
    let known = fields(text).filter_map(|(name, number)| Some((name.strip_prefix(prefix)?, number)));
    for (name, number) in known.filter(|&(_name, number)| number < limits::MEMORY_BYTES) {
        match name {
            // v1: anonymous memory including huge pages, and page cache including shared memory
            "anon" | "rss" => stat.anon = number,
            "file" | "cache" => stat.file = number,
            "shmem" => stat.shmem = number,
            "mapped_file" => stat.mapped = number,
            "inactive_anon" | "active_anon" => stat.anon_lists += number,
            "unevictable" => stat.unevictable = number,
            "kernel" => stat.kernel = Some(number),
            "slab_reclaimable" => stat.slab_reclaimable = number,
            "sock" => stat.sock = number,
            "zswap" => stat.zswap = number,
            // v1 no longer counts a swapped page as swap once it is in memory again
            "swapcached" if prefix.is_empty() => stat.swap_cached = number,
            "swap" => stat.swap = number,
            "kernel_stack" | "pagetables" | "percpu" | "slab_unreclaimable" => stat.kernel_parts += number,
            // before Linux 5.9, one counter included both kinds of refaults
            "workingset_refault" | "workingset_refault_file" | "workingset_refault_anon" => {
                stat.pages.refaults = Some(stat.pages.refaults.unwrap_or(0) + number);
            }
            "pgmajfault" => stat.pages.pgmajfault = Some(number),
            _other => {}
        }
    }
    stat
}

/// Microseconds in which all tasks were stalled: the `total` of the line `full` of a pressure file (`Documentation/accounting/psi.rst`).
pub(super) fn parse_pressure_full(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}
