//! Reads the counters of a group from files that stay open, which takes some microseconds for each reading.
//!
//! The files that are read ten times a second are separate from those that are read once for each sample. A reading needs the memory files;
//! if another file is missing or cannot be read, only its number is absent.

use std::path::{Path, PathBuf};

use super::{
    above::{AncestorLimits, LimitFiles},
    find::{CgroupVersion, Cgroups},
    folder::members,
    limits::CgroupLimits,
    nested::{NestedCounts, NestedGroups},
    parse::{MemoryStat, failed_charges, parse_field, parse_pressure_full, parse_stat_v1, parse_stat_v2},
};
use crate::{
    kernel::{Error, KeptFile},
    reading::{MemorySize, Reading},
};

/// Open files of the groups of one build.
#[derive(Debug)]
pub struct CgroupReader {
    memory: MemoryFiles,
    counters: CounterFiles,
    folder: PathBuf,
    buffer: Vec<u8>,
}

impl CgroupReader {
    /// Opens the files of `groups`; `limits`: the limits in force. `None` if the kernel does not account memory there.
    pub fn open(groups: &Cgroups, limits: &CgroupLimits) -> Result<Option<Self>, Error> {
        let Some(memory) = MemoryFiles::open(groups)? else { return Ok(None) };
        let counters = CounterFiles::open(groups, limits)?;
        Ok(Some(Self { memory, counters, folder: groups.memory.dir.clone(), buffer: Vec::new() }))
    }

    /// Folder of the group that is charged for memory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Version of the interface of the memory files.
    pub fn version(&self) -> CgroupVersion {
        self.memory.version
    }

    /// Ids of the processes in the group and below it. On v2, the id is 0 for a process that the agent's pid namespace does not show.
    pub fn members(&self) -> Vec<i32> {
        members(&self.folder)
    }

    /// Whether the kernel counts this build's CPU time.
    pub fn counts_cpu(&self) -> bool {
        self.counters.cpu.is_some()
    }

    /// Reads all counters. They count from the creation of the group on.
    pub fn read(&mut self) -> Result<Reading, Error> {
        let (size, stat) = self.memory.read(&mut self.buffer, true)?;
        let mut reading = Reading { memory: size.memory, need: size.need, ..Reading::default() };
        (reading.pages, reading.major_faults) = (stat.pages, stat.major_faults());
        self.counters.read(&mut reading, &mut self.buffer);
        self.memory.tasks_below = self.counters.nested_counts.tasks;
        Ok(reading)
    }

    /// Reads only the memory files.
    pub fn read_size(&mut self) -> Result<MemorySize, Error> {
        Ok(self.memory.read(&mut self.buffer, false)?.0)
    }
}

/// The files that are read up to ten times a second.
#[derive(Debug)]
struct MemoryFiles {
    version: CgroupVersion,
    usage: KeptFile,
    stat_file: KeptFile,
    /// v1: the file with the bytes of kernel memory; v2 has them in `stat`.
    kernel: Option<KeptFile>,
    /// v1: the file that lists the threads of the group.
    tasks: Option<KeptFile>,
    /// Number of threads in the group when they were last counted, without groups below.
    tasks_here: u64,
    tasks_below: u64,
    /// v2: the file with the bytes in swap; v1 has them in `stat`.
    swap: Option<KeptFile>,
    /// v2: bytes in swap at the last reading.
    swap_bytes: u64,
}

impl MemoryFiles {
    fn open(groups: &Cgroups) -> Result<Option<Self>, Error> {
        let version = groups.memory.version;
        let open = |name: &str| KeptFile::open(groups.memory.dir.join(name));
        let v1 = |name: &str| if version == CgroupVersion::V1 { open(name) } else { Ok(None) };
        let usage = match version {
            CgroupVersion::V1 => open("memory.usage_in_bytes")?,
            CgroupVersion::V2 => open("memory.current")?,
        };
        let (Some(usage), Some(stat)) = (usage, open("memory.stat")?) else { return Ok(None) };
        let (kernel, tasks) = (v1("memory.kmem.usage_in_bytes")?, v1("tasks")?);
        let swap = if version == CgroupVersion::V2 { open("memory.swap.current")? } else { None };
        Ok(Some(Self {
            version,
            usage,
            stat_file: stat,
            kernel,
            tasks,
            tasks_here: 0,
            tasks_below: 0,
            swap,
            swap_bytes: 0,
        }))
    }

    /// Reads the memory. `whole`: also reads swap if there was none before.
    fn read(&mut self, buffer: &mut Vec<u8>, whole: bool) -> Result<(MemorySize, MemoryStat), Error> {
        // `stat` is read first: if the build grows between the two reads, usage is larger, so the need is not above it
        let (need, stat) = match self.version {
            CgroupVersion::V2 => {
                let stat = parse_stat_v2(self.stat_file.read(buffer)?);
                (stat.need_v2(), stat)
            }
            CgroupVersion::V1 => {
                let kernel = self.kernel.as_ref().and_then(|file| file.read_number(buffer).ok()).unwrap_or(0);
                let stat = parse_stat_v1(self.stat_file.read(buffer)?);
                (stat.need_v1(kernel, self.count_tasks(kernel, &stat, buffer)), stat)
            }
        };
        let memory = self.usage.read_number(buffer)?;
        if whole || self.swap_bytes > 0 {
            self.swap_bytes = self.swap.as_ref().and_then(|file| file.read_number(buffer).ok()).unwrap_or(0);
        }
        let need = need.min(memory).saturating_add(stat.swapped(self.swap_bytes));
        Ok((MemorySize { memory, need }, stat))
    }

    /// Number of threads of a v1 group and the groups below it. They are counted again only if their number matters for the need.
    fn count_tasks(&mut self, kernel: u64, stat: &MemoryStat, buffer: &mut Vec<u8>) -> u64 {
        let known = self.tasks_here.saturating_add(self.tasks_below);
        if kernel <= stat.kernel_bound_v1(known) {
            return known;
        }
        let text = self.tasks.as_ref().and_then(|file| file.read(buffer).ok());
        let lines = text.map_or(0, |text| text.bytes().filter(|&byte| byte == b'\n').count());
        self.tasks_here = u64::try_from(lines).unwrap_or(u64::MAX);
        self.tasks_here.saturating_add(self.tasks_below)
    }
}

/// The files that are read once for each sample.
#[derive(Debug)]
struct CounterFiles {
    version: CgroupVersion,
    peak: Option<KeptFile>,
    /// The file `memory.oom_control` (v1) or `memory.events` (v2).
    events: Option<KeptFile>,
    /// v1: the files that count failed charges; v2 has this number in `events`.
    failures: Option<LimitFiles>,
    /// v1: the groups below; v2 includes them in `events`.
    nested: Option<NestedGroups>,
    nested_counts: NestedCounts,
    ancestor_limits: AncestorLimits,
    cpu: Option<CpuFile>,
    /// The file `cpu.stat` of the group with the CPU limit in force.
    throttled: Option<KeptFile>,
    /// v2: the file `memory.pressure`.
    pressure: Option<KeptFile>,
}

#[derive(Debug)]
enum CpuFile {
    /// The v1 file `cpuacct.usage`, which has nanoseconds.
    Nanoseconds(KeptFile),
    /// The v2 file `cpu.stat`.
    Stat(KeptFile),
}

impl CounterFiles {
    fn open(groups: &Cgroups, limits: &CgroupLimits) -> Result<Self, Error> {
        let version = groups.memory.version;
        let dir = &groups.memory.dir;
        let open = |name: &str| KeptFile::open(dir.join(name));
        let (peak, events, failures, nested) = match version {
            CgroupVersion::V1 => (
                open("memory.max_usage_in_bytes")?,
                open("memory.oom_control")?,
                LimitFiles::open(dir, version)?,
                Some(NestedGroups::new(dir.clone())),
            ),
            CgroupVersion::V2 => (open("memory.peak")?, open("memory.events")?, None, None),
        };
        let quota =
            limits.throttling.as_deref().or_else(|| groups.quota.as_ref().map(|group| group.dir.as_path()));
        let throttled = quota.map(|dir| KeptFile::open(dir.join("cpu.stat"))).transpose()?.flatten();
        let pressure = if version == CgroupVersion::V2 { open("memory.pressure")? } else { None };
        let above = AncestorLimits::open(&groups.memory, limits.limiting.as_deref())?;
        let (cpu, below) = (open_cpu(groups)?, NestedCounts::default());
        Ok(Self {
            version,
            peak,
            events,
            failures,
            nested,
            nested_counts: below,
            ancestor_limits: above,
            cpu,
            throttled,
            pressure,
        })
    }

    fn read(&mut self, reading: &mut Reading, buffer: &mut Vec<u8>) {
        reading.memory_peak = self.peak.as_ref().and_then(|file| file.read_number(buffer).ok());
        self.read_events(reading, buffer);
        let (above, complete) = self.ancestor_limits.read(buffer);
        reading.limit_hits_above = Some(above.limits);
        reading.sees_all_limits = complete;
        reading.failures_above = above.failures;
        if let Some(failures) = above.failures {
            reading.reclaim_failures = Some(reading.reclaim_failures.unwrap_or(0).saturating_add(failures));
        }
        reading.cpu_usec = match &self.cpu {
            Some(CpuFile::Nanoseconds(file)) => file.read_number(buffer).map_or(0, |time| time / 1000),
            Some(CpuFile::Stat(file)) => read_field(file, "usage_usec", buffer).unwrap_or(0),
            None => 0,
        };
        reading.throttled_usec = self.throttled.as_ref().and_then(|file| read_throttled(file, buffer));
        let pressure = self.pressure.as_ref().and_then(|file| file.read(buffer).ok());
        reading.memory_stall_usec = pressure.and_then(parse_pressure_full);
    }

    fn read_events(&mut self, reading: &mut Reading, buffer: &mut Vec<u8>) {
        if let Some(text) = self.events.as_ref().and_then(|file| file.read(buffer).ok()) {
            reading.oom_kill = parse_field(text, "oom_kill");
            if self.version == CgroupVersion::V2 {
                reading.oom_group_kill = parse_field(text, "oom_group_kill");
                reading.reclaim_failures = failed_charges(text);
                reading.limit_hits = parse_field(text, "oom");
            }
        }
        if let Some((failures, hits)) = self.failures.as_ref().and_then(|files| files.read(buffer)) {
            (reading.reclaim_failures, reading.limit_hits) = (Some(failures), Some(hits));
        }
        if let Some(nested) = &mut self.nested {
            let below = nested.read();
            let add = |number: Option<u64>, more: u64| number.map(|number| number.saturating_add(more));
            reading.oom_kill = add(reading.oom_kill, below.oom_kills);
            reading.reclaim_failures = add(reading.reclaim_failures, below.failures);
            reading.limit_hits = add(reading.limit_hits, below.failures);
            self.nested_counts = below;
        }
    }
}

fn read_field(file: &KeptFile, name: &str, buffer: &mut Vec<u8>) -> Option<u64> {
    parse_field(file.read(buffer).ok()?, name)
}

/// Microseconds for which the CPU limit throttled the group; v2 counts microseconds, v1 nanoseconds.
fn read_throttled(file: &KeptFile, buffer: &mut Vec<u8>) -> Option<u64> {
    let text = file.read(buffer).ok()?;
    let v1 = || parse_field(text, "throttled_time").map(|time| time / 1000);
    parse_field(text, "throttled_usec").or_else(v1)
}

/// Opens the file with the CPU time, unless that is the time of the whole machine.
fn open_cpu(groups: &Cgroups) -> Result<Option<CpuFile>, Error> {
    let Some(group) = groups.cpu.as_ref().filter(|group| !group.is_root()) else { return Ok(None) };
    Ok(match group.version {
        CgroupVersion::V1 => KeptFile::open(group.dir.join("cpuacct.usage"))?.map(CpuFile::Nanoseconds),
        CgroupVersion::V2 => KeptFile::open(group.dir.join("cpu.stat"))?.map(CpuFile::Stat),
    })
}

#[cfg(test)]
mod tests;
