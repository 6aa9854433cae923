//! Reads the counters of a group from files that stay open: some microseconds for one reading.

use std::path::{Path, PathBuf};

use super::{
    find::{Groups, Version},
    parse::{parse_field, parse_need_v1, parse_need_v2},
};
use crate::{
    kernel::{Error, KeptFile},
    meter::Reading,
};

/// The open files of the groups of one build.
#[derive(Debug)]
pub struct Reader {
    version: Version,
    usage: KeptFile,
    stat: KeptFile,
    peak: Option<KeptFile>,
    /// v1 only; v2 has kernel memory in `stat`.
    kernel: Option<KeptFile>,
    /// v1 `memory.oom_control`, v2 `memory.events`.
    events: Option<KeptFile>,
    /// v1 only; v2 has it in `events`.
    failures: Option<KeptFile>,
    /// The group above whose limit is in force counts failed charges itself, and only there.
    failures_above: Option<KeptFile>,
    cpu: Option<Cpu>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Cpu {
    /// v1 `cpuacct.usage`.
    Nanoseconds(KeptFile),
    /// v2 `cpu.stat`.
    Stat(KeptFile),
}

impl Reader {
    /// Opens the files of `groups`; `limiting` is the folder of the group whose memory limit is in force. `None` if the
    /// kernel does not account memory there.
    pub fn open(groups: &Groups, limiting: Option<&Path>) -> Result<Option<Self>, Error> {
        let version = groups.memory.version;
        let dir = &groups.memory.dir;
        let open = |name: &str| KeptFile::open(dir.join(name));
        let (usage, stat) = match version {
            Version::V1 => (open("memory.usage_in_bytes")?, open("memory.stat")?),
            Version::V2 => (open("memory.current")?, open("memory.stat")?),
        };
        let (Some(usage), Some(stat)) = (usage, stat) else { return Ok(None) };
        let (peak, kernel, events, failures) = match version {
            Version::V1 => (
                open("memory.max_usage_in_bytes")?,
                open("memory.kmem.usage_in_bytes")?,
                open("memory.oom_control")?,
                open("memory.failcnt")?,
            ),
            Version::V2 => (open("memory.peak")?, None, open("memory.events")?, None),
        };
        let above = limiting.filter(|above| above != dir).map(|above| failures_file(version, above));
        let failures_above = above.map(KeptFile::open).transpose()?.flatten();
        let (cpu, buffer) = (open_cpu(groups)?, Vec::new());
        Ok(Some(Self { version, usage, stat, peak, kernel, events, failures, failures_above, cpu, buffer }))
    }

    /// The interface of the memory files.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Says whether the kernel counts this build's CPU time.
    pub fn counts_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Reads everything. The counters are those of the group, since it was made.
    pub fn read(&mut self) -> Result<Reading, Error> {
        // `stat` first: a build that grows meanwhile has the larger usage, and the need stays below it
        let need = self.read_stat()?;
        let buffer = &mut self.buffer;
        let memory = self.usage.read_number(buffer)?;
        let memory_peak = self.peak.as_ref().map(|file| file.read_number(buffer)).transpose()?;
        let cpu_usec = match &self.cpu {
            Some(Cpu::Nanoseconds(file)) => file.read_number(buffer)? / 1000,
            Some(Cpu::Stat(file)) => field(file, "usage_usec", buffer)?.unwrap_or(0),
            None => 0,
        };
        let (mut oom_kill, mut failures) = (None, None);
        if let Some(file) = &self.events {
            let text = file.read(buffer)?;
            oom_kill = parse_field(text, "oom_kill");
            failures = parse_field(text, "max").filter(|_count| self.version == Version::V2);
        }
        if let Some(file) = &self.failures {
            failures = Some(file.read_number(buffer)?);
        }
        if let Some(file) = &self.failures_above {
            let above = match self.version {
                Version::V1 => file.read_number(buffer)?,
                Version::V2 => field(file, "max", buffer)?.unwrap_or(0),
            };
            failures = Some(failures.unwrap_or(0).saturating_add(above));
        }
        let need = need.min(memory);
        Ok(Reading { memory, need, memory_peak, cpu_usec, oom_kill, reclaim_failures: failures })
    }

    /// Reads the need alone.
    pub fn read_need(&mut self) -> Result<u64, Error> {
        let need = self.read_stat()?;
        Ok(need.min(self.usage.read_number(&mut self.buffer)?))
    }

    fn read_stat(&mut self) -> Result<u64, Error> {
        let buffer = &mut self.buffer;
        match self.version {
            Version::V2 => Ok(parse_need_v2(self.stat.read(buffer)?)),
            Version::V1 => {
                let kernel = self.kernel.as_ref().map(|file| file.read_number(buffer)).transpose()?;
                Ok(parse_need_v1(self.stat.read(buffer)?, kernel))
            }
        }
    }
}

/// The file in which a group counts failures of its own limit. v2 `memory.events` would count those of groups below again.
fn failures_file(version: Version, dir: &Path) -> PathBuf {
    dir.join(match version {
        Version::V1 => "memory.failcnt",
        Version::V2 => "memory.events.local",
    })
}

fn field(file: &KeptFile, name: &str, buffer: &mut Vec<u8>) -> Result<Option<u64>, Error> {
    Ok(parse_field(file.read(buffer)?, name))
}

/// Opens the CPU counter, unless it is that of the whole machine.
fn open_cpu(groups: &Groups) -> Result<Option<Cpu>, Error> {
    let Some(group) = groups.cpu.as_ref().filter(|group| !group.is_root()) else { return Ok(None) };
    Ok(match group.version {
        Version::V1 => KeptFile::open(group.dir.join("cpuacct.usage"))?.map(Cpu::Nanoseconds),
        Version::V2 => KeptFile::open(group.dir.join("cpu.stat"))?.map(Cpu::Stat),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Limits, fake::FakeKernel, find};

    fn reader(fake: &FakeKernel) -> Reader {
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        Reader::open(&groups, Limits::read(&groups).limiting.as_deref()).unwrap().unwrap()
    }

    #[test]
    fn v2_is_read_whole() {
        let fake = FakeKernel::v2("/build");
        let mut reader = reader(&fake);
        let expected = Reading {
            memory: 10_000,
            need: 1_600,
            memory_peak: Some(12_000),
            cpu_usec: 5_000,
            oom_kill: Some(1),
            reclaim_failures: Some(9),
        };
        assert_eq!(reader.read().unwrap(), expected);
        fake.write("/sys/fs/cgroup/build/memory.current", "1500\n");
        assert_eq!(reader.read().unwrap().need, 1_500, "the need is never more than the usage");
        assert_eq!(reader.read_need().unwrap(), 1_500);
    }

    #[test]
    fn v1_is_read_whole() {
        let mut reader = reader(&FakeKernel::hybrid("/build", "/jobs/7"));
        let expected = Reading {
            memory: 10_000,
            need: 1_600,
            memory_peak: Some(12_000),
            cpu_usec: 5_000,
            oom_kill: Some(1),
            reclaim_failures: Some(9),
        };
        assert_eq!(reader.read().unwrap(), expected);
    }

    #[test]
    fn what_the_kernel_does_not_have_is_absent() {
        let fake = FakeKernel::v2("/build");
        for name in ["memory.peak", "memory.events", "cpu.stat"] {
            fake.remove(&format!("/sys/fs/cgroup/build/{name}"));
        }
        let mut reader = reader(&fake);
        assert!(!reader.counts_cpu());
        let reading = reader.read().unwrap();
        assert_eq!((reading.memory_peak, reading.oom_kill, reading.reclaim_failures), (None, None, None));
        assert_eq!(reading.need, 1_600);
    }

    #[test]
    fn without_memory_accounting_there_is_no_reader() {
        let fake = FakeKernel::v2("/build");
        fake.remove("/sys/fs/cgroup/build/memory.current");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert!(Reader::open(&groups, None).unwrap().is_none());
    }

    #[test]
    fn the_counter_of_the_whole_machine_is_not_the_builds() {
        let fake = FakeKernel::hybrid("/build", "/");
        fake.write("/sys/fs/cgroup/cpuacct/release_agent", "\n");
        assert!(!reader(&fake).counts_cpu());
    }

    #[test]
    fn failures_at_a_limit_above_are_counted_too() {
        let fake = FakeKernel::v2("/pod/build");
        fake.write("/sys/fs/cgroup/pod/memory.max", "20000\n");
        fake.write("/sys/fs/cgroup/pod/memory.events.local", "low 0\nhigh 0\nmax 30\noom 0\noom_kill 0\n");
        assert_eq!(reader(&fake).read().unwrap().reclaim_failures, Some(39));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_error_with_its_path() {
        let fake = FakeKernel::v2("/build");
        let mut reader = reader(&fake);
        fake.write("/sys/fs/cgroup/build/memory.current", "lots\n");
        let error = reader.read().unwrap_err().to_string();
        assert!(error.contains("build/memory.current"), "{error}");
    }
}
