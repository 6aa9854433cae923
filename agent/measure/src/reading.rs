//! The measurements of a build at one moment, whatever their source.

use plimsoll_proto::counters::PageCounters;

/// The measurements of a build at one moment. Counters count from where the source began, which is not always the start of the build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes charged to the build now, including page cache.
    pub memory: u64,
    /// Bytes that the build needs now: those of `memory` that cannot be reclaimed, and those in swap and in huge pages, which may not be part
    /// of `memory`.
    pub need: u64,
    /// High-water mark of `memory`; `None` if the source keeps none.
    pub memory_peak: Option<u64>,
    /// CPU time used, microseconds.
    pub cpu_usec: u64,
    /// Number of processes killed for lack of memory, also in groups that the build created.
    pub oom_kill: Option<u64>,
    /// Number of groups killed as a whole; v2 only.
    pub oom_group_kill: Option<u64>,
    /// Number of charges that failed without reclaim (v2 `max` and `high`, v1 `failcnt`), at the build's own limit and at the limit in force.
    pub reclaim_failures: Option<u64>,
    /// Number of failed charges at a limit above the build's group, if such a limit is in force; `reclaim_failures` includes them.
    pub failures_above: Option<u64>,
    /// How often memory ran out at the limit of the build's group or of a group below it, which may have killed a process: v2 `oom`, v1 every
    /// failed charge.
    pub limit_hits: Option<u64>,
    /// Like `limit_hits`, at the limits of the groups above the build's, as far as they can be read.
    pub limit_hits_above: Option<u64>,
    /// Whether `limit_hits` and `limit_hits_above` together include every limit that exists.
    pub sees_all_limits: bool,
    /// Time in which all tasks waited for memory, microseconds; v2 only.
    pub memory_stall_usec: Option<u64>,
    /// Page counters of `memory.stat`.
    pub pages: PageCounters,
    /// Number of page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Time for which the CPU limit throttled the build, microseconds.
    pub throttled_usec: Option<u64>,
}

/// Memory of a build at one moment, bytes, as in [`Reading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize {
    /// Charged memory, including page cache.
    pub memory: u64,
    /// Memory that cannot be reclaimed, with swap and huge pages.
    pub need: u64,
}
