//! What is measured of a build at one moment, whichever way it is read.

use plimsoll_proto::counters::PageCounters;

/// What is measured at one moment. Counters are as the source counts them, which is not always since the start of the build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes charged now, page cache included.
    pub memory: u64,
    /// Bytes that cannot be reclaimed now; never more than `memory`.
    pub need: u64,
    /// High-water mark of `memory`, where something keeps one.
    pub memory_peak: Option<u64>,
    /// CPU time, microseconds.
    pub cpu_usec: u64,
    /// Processes killed for memory, in groups that the build made too.
    pub oom_kill: Option<u64>,
    /// Groups killed as a whole, v2 only.
    pub oom_group_kill: Option<u64>,
    /// Charges that failed without reclaim (v2 `max`, v1 `failcnt`), at the build's own limit and at the limit in force.
    pub reclaim_failures: Option<u64>,
    /// Those among them that failed at a limit above the build's group, if one is in force.
    pub failures_above: Option<u64>,
    /// Times that the build's own limit, or one below, may have made the kernel kill: v2 `oom`, v1 every failed charge.
    pub limit_hits: Option<u64>,
    /// The same for all limits above that can be read.
    pub limit_hits_above: Option<u64>,
    /// There is no limit that these two do not count.
    pub sees_all_limits: bool,
    /// Time in which all tasks stood still for memory, microseconds; v2 only.
    pub memory_stall_usec: Option<u64>,
    /// Counters of `memory.stat`.
    pub pages: PageCounters,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Time for which the CPU limit held the build back, microseconds.
    pub throttled_usec: Option<u64>,
}

/// How large a build is at one moment, bytes; as in [`Reading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize {
    /// Charged, page cache included.
    pub memory: u64,
    /// Cannot be reclaimed.
    pub need: u64,
}
