//! Parses the kernel's texts. Pure: reads no file.
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
    /// The path in the hierarchy that is mounted.
    pub(super) root: PathBuf,
    /// The folder where it is mounted.
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

/// A memory limit. v2 writes `max` for none, v1 a number near 2^63; no machine has more than [`limits::MEMORY_BYTES`].
pub(super) fn parse_memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < limits::MEMORY_BYTES)
}

/// The number of cores that v2 `cpu.max` allows: `QUOTA PERIOD`, where the quota `max` is no limit.
pub(super) fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    parse_cpu_quota(quota, period)
}

/// The number of cores that v1 `cpu.cfs_quota_us` over `cpu.cfs_period_us` allows; a quota of -1 is no limit.
pub(super) fn parse_cpu_quota(quota: &str, period: &str) -> Option<f64> {
    // 32 bits hold more than an hour in microseconds, and convert without loss
    let quota: u32 = quota.trim().parse().ok()?;
    let period: u32 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// Values of `memory.stat` about memory that the kernel cannot reclaim without killing or swapping, and about the cost of reclaiming the
/// rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryStat {
    anon: u64,
    shmem: u64,
    /// Page cache, shared memory included.
    file: u64,
    /// Page cache that is mapped; v1 only.
    mapped: u64,
    anon_lists: u64,
    unevictable: u64,
    /// v2: all kernel memory, if the kernel reports it (Linux 5.18 and later).
    kernel: Option<u64>,
    slab_reclaimable: u64,
    /// v2: the sum of the parts of kernel memory, for older kernels.
    kernel_parts: u64,
    /// v2: network buffers, which `kernel` does not include.
    sock: u64,
    /// Counters that are passed on unchanged.
    pub(super) pages: PageCounters,
}

impl MemoryStat {
    /// Page faults that were read from a disk.
    pub(super) fn major_faults(&self) -> Option<u64> {
        self.pages.pgmajfault
    }

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
    /// reclaimed grows with threads and pages; see [`MemoryStat::kernel_bound_v1`]. More than that is counted as file names and inodes.
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
pub(super) fn parse_stat_v2(text: &str) -> MemoryStat {
    let mut stat = MemoryStat::default();
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
            // before Linux 5.9 one counter included both kinds
            "workingset_refault" | "workingset_refault_file" | "workingset_refault_anon" => {
                stat.pages.refaults = Some(stat.pages.refaults.unwrap_or(0) + number);
            }
            "pgmajfault" => stat.pages.pgmajfault = Some(number),
            _other => {}
        }
    }
    stat
}

/// Parses v1 `memory.stat`, of the group and all below it (`total_`). `rss` is the anonymous memory (huge pages included), `cache`
/// the page cache with shared memory.
pub(super) fn parse_stat_v1(text: &str) -> MemoryStat {
    let mut stat = MemoryStat::default();
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
                stat.pages.refaults = Some(stat.pages.refaults.unwrap_or(0) + number);
            }
            "total_pgmajfault" => stat.pages.pgmajfault = Some(number),
            _other => {}
        }
    }
    stat
}

/// The `total` of the line `full` of a pressure file: microseconds in which all tasks were stalled (`Documentation/accounting/psi.rst`).
pub(super) fn parse_pressure_full(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}
