//! Looks at single processes of a build: which one is largest, how many compilers run.
//!
//! A look reads `stat` of each process, and `statm` where the memory matters. That costs some 20 µs for each process, so a look is followed
//! by a pause in proportion. [`programs`] knows the programs, [`largest`] keeps the largest process, [`stoppable`] looks closer at one that
//! may be paused.

pub(crate) mod largest;
pub mod programs;
pub(crate) mod stoppable;

pub use stoppable::watcher_of_this_process;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    path::{Path, PathBuf},
};

use procfs::{FromRead as _, process::Stat};

use crate::kernel;

/// Most processes that one look reads. A build with more is seen in part, and nothing in it is paused.
pub const MAX_PROCESSES: usize = 2048;
/// Most parents that are followed from one process.
pub(crate) const MAX_PARENTS: usize = 64;
/// More bytes than `/proc/PID/stat` has.
const STAT_BYTES: usize = 2048;

/// Identifies a process, also after its id was used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// When it started, in clock ticks since the machine booted: the oldest comes first.
    pub started: u64,
    /// Its id in the `/proc` that shows the build.
    pub pid: i32,
}

impl ProcessId {
    /// The process that has this id now, of those that the running kernel shows; `None` if it has ended or cannot be read.
    pub fn of_running(pid: i32) -> Option<Self> {
        ProcessTable::read("/proc".into(), &[pid]).processes.get(&pid).map(|process| process.id)
    }

    /// Whether the running kernel shows this process, which may have ended and wait for its parent.
    /// Errors: that cannot be read, for example because too many files are open.
    pub fn exists(self) -> io::Result<bool> {
        let mut buffer = [0; STAT_BYTES];
        match kernel::read_start(Path::new(&format!("/proc/{}/stat", self.pid)), &mut buffer) {
            Ok(text) => Ok(Stat::from_read(text).is_ok_and(|stat| stat.starttime == self.started)),
            // the second if it ended between opening and reading
            Err(gone)
                if gone.kind() == io::ErrorKind::NotFound
                    || gone.raw_os_error() == Some(nix::libc::ESRCH) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// One process of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessView {
    /// The process.
    pub id: ProcessId,
    /// Its parent, and its process group.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its name in the kernel, at most 15 bytes.
    pub name: String,
    /// Its state, as `stat` spells it: `R`, `S`, `D`, `T` stopped, `t` traced, `Z`, `X`.
    pub state: char,
    /// CPU time, clock ticks.
    pub cpu_ticks: u64,
    /// The part of `cpu_ticks` outside the kernel.
    pub user_ticks: u64,
    /// Resident memory, bytes, pages of files included.
    pub resident: u64,
    /// Whether another process of the build has it as its parent.
    pub has_children: bool,
}

impl ProcessView {
    /// Whether it has ended, and only waits for its parent.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it is stopped, by a signal or by a tracer.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// The processes of a build at one moment.
#[derive(Debug, Clone, Default)]
pub struct ProcessTable {
    /// The folder that shows them.
    pub proc: PathBuf,
    /// All running processes, by their ids.
    pub processes: BTreeMap<i32, ProcessView>,
    /// Whether the build has more than [`MAX_PROCESSES`].
    pub is_partial: bool,
}

impl ProcessTable {
    /// Reads the processes `pids` from the folder `proc`. Those that have ended, or that are not visible, are left out.
    pub fn read(proc: PathBuf, pids: &[i32]) -> Self {
        let (mut buffer, page) = ([0; STAT_BYTES], procfs::page_size());
        let visible = pids.iter().filter(|pid| **pid > 0);
        let stats = visible.take(MAX_PROCESSES).filter_map(|pid| {
            Stat::from_read(kernel::read_start(&proc.join(pid.to_string()).join("stat"), &mut buffer).ok()?)
                .ok()
        });
        let views = stats.map(|stat| view(stat, page));
        let running: Vec<_> = views.filter(|process| !process.has_ended()).collect();
        Self::of(proc, running, pids.len() > MAX_PROCESSES)
    }

    /// A table of these processes; finds out which have children.
    pub fn of(proc: PathBuf, list: impl IntoIterator<Item = ProcessView>, is_partial: bool) -> Self {
        let mut processes: BTreeMap<i32, _> =
            list.into_iter().map(|process| (process.id.pid, process)).collect();
        let parents: HashSet<i32> = processes.values().map(|process| process.parent).collect();
        for process in processes.values_mut() {
            process.has_children = parents.contains(&process.id.pid);
        }
        Self { proc, processes, is_partial }
    }

    /// The processes above one, from its parent on.
    pub(crate) fn above(&self, pid: i32) -> impl Iterator<Item = &ProcessView> {
        let parent = |process: &&ProcessView| self.processes.get(&process.parent);
        std::iter::successors(self.processes.get(&pid), parent).skip(1).take(MAX_PARENTS)
    }

    /// The compilers and linkers, and programs that `is_more` names, without a process below them. Each comes with the driver that started
    /// it, or with itself if it has none.
    pub(crate) fn leaf_compilers(
        &self,
        is_more: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&ProcessView, &ProcessView)> {
        let is_compiler = move |name: &str| programs::is_compiler(name) || is_more(name);
        let leaves = self.processes.values().filter(|process| !process.has_children);
        leaves.filter(move |leaf| is_compiler(&leaf.name)).map(|leaf| {
            let parent = self.processes.get(&leaf.parent);
            (leaf, parent.filter(|parent| programs::is_driver(&parent.name)).unwrap_or(leaf))
        })
    }

    /// Number of compilers and linkers without a process below them; those of one driver count once.
    pub fn compilers(&self) -> u32 {
        let drivers: BTreeSet<ProcessId> =
            self.leaf_compilers(|_| false).map(|(_, driver)| driver.id).collect();
        u32::try_from(drivers.len()).unwrap_or(u32::MAX)
    }
}

/// Anonymous memory of a process, bytes; `None` if it has ended.
pub(crate) fn anonymous(proc: &Path, pid: i32) -> Option<u64> {
    let mut buffer = [0; 128];
    let text = kernel::read_start(&proc.join(pid.to_string()).join("statm"), &mut buffer).ok()?;
    let mut fields = std::str::from_utf8(text).ok()?.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(resident.saturating_sub(shared).saturating_mul(procfs::page_size()))
}

fn view(stat: Stat, page: u64) -> ProcessView {
    ProcessView {
        id: ProcessId { started: stat.starttime, pid: stat.pid },
        parent: stat.ppid,
        group: stat.pgrp,
        state: stat.state,
        cpu_ticks: stat.utime.saturating_add(stat.stime),
        user_ticks: stat.utime,
        resident: stat.rss.saturating_mul(page),
        name: stat.comm,
        has_children: false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
