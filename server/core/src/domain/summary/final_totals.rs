//! What the agent read after the end of a build.

use plimsoll_proto::counters::PageCounters;

use crate::domain::{Bytes, CpuMicros, Micros, Millis, OomOrigin};

/// Counters that the agent read after the end of the command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FinalTotals {
    /// CPU time used.
    pub cpu: CpuMicros,
    /// High-water mark of memory, page cache included.
    pub memory_peak: Option<Bytes>,
    /// Number of processes killed for memory.
    pub oom_kill: Option<u64>,
    /// Number of memory charges that failed without reclaim.
    pub reclaim_failures: Option<u64>,
    /// Highest memory need ever read.
    pub need_peak: Option<Bytes>,
    /// Which limit caused the kill, if anything was killed.
    pub oom_origin: Option<OomOrigin>,
    /// Number of cgroups that the kernel killed as a whole.
    pub oom_group_kill: Option<u64>,
    /// Time in which every task was stalled on memory.
    pub memory_stall: Option<Micros>,
    /// Page counters.
    pub pages: PageCounters,
    /// Time in which a CPU limit throttled the build.
    pub throttled: Option<Micros>,
    /// Time in which the attempt was starved.
    pub starved: Option<Millis>,
    /// The memory limit at the end, 0 for none; `None` if it is the one at the start, or is not known.
    pub memory_limit: Option<Bytes>,
    /// Most compilers and linkers that ran at once.
    pub compilers_peak: Option<u32>,
}
