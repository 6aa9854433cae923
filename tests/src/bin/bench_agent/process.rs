//! What a process used, as the kernel counts it.

use std::{fs, path::Path, thread, time::Duration};

use anyhow::{Context as _, bail};

/// What a process used so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// CPU time of all its threads.
    pub(super) cpu: Duration,
    /// Resident memory, bytes.
    pub(super) rss: u64,
    /// Resident memory that is not shared, bytes. The pages of its program count here while it runs only once.
    pub(super) private: u64,
    /// Of these, the ones that it has written to.
    pub(super) dirty: u64,
}

impl Cost {
    /// Of a process that runs.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let proc = Path::new("/proc").join(pid.to_string());
        let mut nanos = 0;
        for thread in fs::read_dir(proc.join("task"))? {
            // the first number is time on a CPU in nanoseconds (kernel: Documentation/scheduler/sched-stats.rst)
            let stat = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += stat.split(' ').next().context("schedstat is empty")?.parse::<u64>()?;
        }
        let maps = fs::read_to_string(proc.join("smaps_rollup"))?;
        let kib = |name: &str| -> u64 {
            let lines = maps.lines().filter_map(|line| line.strip_prefix(name));
            lines.filter_map(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).sum()
        };
        let (clean, dirty) = (kib("Private_Clean:") << 10, kib("Private_Dirty:") << 10);
        Ok(Self { cpu: Duration::from_nanos(nanos), rss: kib("Rss:") << 10, private: clean + dirty, dirty })
    }
}

/// The first child of a process, which is about to start one.
pub(super) fn child_of(pid: u32) -> anyhow::Result<u32> {
    for _ in 0..1000 {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        if let Some(child) = children.split_whitespace().next() {
            return Ok(child.parse()?);
        }
        thread::sleep(Duration::from_millis(10));
    }
    bail!("the agent starts no command")
}
