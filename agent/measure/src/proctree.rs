//! Measures a build by its processes, for machines on which no cgroup counts them.
//!
//! This is less exact than a cgroup, and the numbers are marked accordingly. A page that several processes share counts once: each process
//! counts its part of the page (`Pss` of `smaps_rollup`, Linux 5.4). If that cannot be read, for example for another user's process,
//! anonymous memory counts for each process that has it, so the need of a build that forks may be too high; of shared memory only the
//! amount of the process that maps most of it counts, so it may be too low. Not seen at all are files in a tmpfs (`/dev/shm`) that no
//! process maps, kernel memory, and OOM kills.
//!
//! Descendants are found by their parent's id. A process becomes a child of init when its parent ends, and would be lost; so the agent
//! declares itself the reaper of its descendants. It cannot do that for a build that it did not start, whose `daemons` it recognizes by other
//! signs.

mod daemons;
mod own_entry;
mod shares;

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use procfs::{
    FromRead as _, ProcResult,
    process::{Process, Stat},
};

pub use self::own_entry::OwnEntry;
use self::{
    daemons::Daemons,
    shares::{ResidentMemory, SeenProcess, SharedPages},
};
use crate::{
    kernel::{self, Error, Kernel},
    reading::Reading,
};

/// Most bytes of other processes in the agent's cgroup with which that cgroup is still used to measure the build: the shells of a job's
/// script and a `tee` use less.
pub const OTHER_PROCESSES_BYTES: u64 = 16 << 20;

/// All descendants of one process.
#[derive(Debug)]
pub struct ProcessTree {
    proc: PathBuf,
    root_pid: i32,
    /// The daemons of a build that the agent did not start. Such a build includes `top` itself, not only its descendants.
    daemons: Option<Box<Daemons>>,
    ticks_per_second: u64,
    /// CPU time, in clock ticks, of the children that this process had reaped before the build started.
    base_ticks: u64,
    /// Highest CPU time so far, microseconds. The CPU time of a process that ends without being reaped is lost, so later sums can be lower.
    cpu_usec: u64,
    /// Ids of the processes of the last reading.
    pids: Vec<i32>,
    shared: SharedPages,
}

/// Anonymous and shared bytes, with those in swap, of the processes listed in the file `procs` (`cgroup.procs`), without this process. `None`
/// if one of them is not visible here; a process that has ended counts as 0.
pub fn resident_of_others(kernel: &Kernel, procs: &Path) -> Option<u64> {
    // the ids in the list are of the agent's own pid namespace
    let is_visible = OwnEntry::find(&kernel.path("/proc")) == OwnEntry::Same;
    let list = kernel::read(procs).ok().filter(|_| is_visible)?.unwrap_or_default();
    let own = std::process::id().cast_signed();
    let others = list.lines().filter_map(|pid| pid.trim().parse().ok()).filter(|&pid| pid != own);
    sum_resident(kernel, others)
}

/// Anonymous and shared bytes of these processes, as [`resident_of_others`] adds them up.
pub(crate) fn sum_resident(kernel: &Kernel, pids: impl Iterator<Item = i32>) -> Option<u64> {
    let mut sizes = pids.map(|pid| resident_of(kernel, pid));
    sizes.try_fold(0, |sum: u64, bytes| Some(sum.saturating_add(bytes?)))
}

fn resident_of(kernel: &Kernel, pid: i32) -> Option<u64> {
    // a process of another pid namespace is listed with the id 0
    let status = kernel::read(&kernel.path(format!("/proc/{pid}/status")));
    let status = match status {
        Ok(Some(status)) => status,
        // a process that nothing shows is hidden; one that cannot be read for another reason, as at a memory limit, is read the next time
        Err(error) if error.problem.kind() != io::ErrorKind::PermissionDenied => return Some(0),
        Ok(None) | Err(_) => return (pid != 0 && has_ended(pid)).then_some(0),
    };
    let resident = ResidentMemory::of_status(&status);
    Some(resident.anonymous.saturating_add(resident.shared))
}

/// Bytes in the first line of a text of `/proc` that begins with `name`, for example `VmSwap:   12 kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// More bytes than `/proc/PID/stat` has: 52 fields, and a name of 64 bytes at most.
const STAT_BYTES: usize = 2048;
/// Most parents that are followed from one process. Real chains are shorter; the limit prevents an endless loop if a process id is reused.
const MAX_PARENTS: usize = 64;

/// The state of each process that the folder `proc` shows. The list of the crate procfs makes seven system calls for each process; these are
/// three.
fn all_stats(proc: &Path) -> io::Result<Vec<Stat>> {
    let mut buffer = [0; STAT_BYTES];
    let entries = fs::read_dir(proc)?.flatten().map(|entry| entry.file_name());
    let pids = entries.filter(|name| name.as_bytes().iter().all(u8::is_ascii_digit));
    // a process that ends while it is read is no error: its parent reaps it, and then includes its CPU time
    let stat =
        |pid| Stat::from_read(kernel::read_start(&proc.join(pid).join("stat"), &mut buffer).ok()?).ok();
    Ok(pids.filter_map(stat).collect())
}

/// Ids of the running descendants of process `top`, read from the folder `proc`.
pub(crate) fn below(proc: &Path, top: i32) -> BTreeSet<i32> {
    let stats = all_stats(proc).unwrap_or_default();
    // a zombie uses nothing, and v1 shows it in the root group
    let runs = |stat: &&Stat| !matches!(stat.state, 'Z' | 'X');
    descendants(&stats, &[top]).into_iter().filter(runs).map(|stat| stat.pid).collect()
}

/// Whether process `pid` descends from `top`, or is one of `known` or descends from one, or has ended. False for the id 0, which means
/// a process outside the agent's pid namespace, and for a process that runs but cannot be read.
pub(crate) fn is_below_or_ended(proc: &Path, pid: i32, top: i32, known: &BTreeSet<i32>) -> bool {
    let parent = |pid: i32| Some(Process::new_with_root(proc.join(pid.to_string())).ok()?.stat().ok()?.ppid);
    let Some(first) = (pid != 0).then(|| parent(pid)) else { return false };
    let mut parents = std::iter::successors(first, |pid| parent(*pid)).take(MAX_PARENTS);
    if first.is_none() {
        return has_ended(pid);
    }
    known.contains(&pid) || parents.any(|parent| parent == top || known.contains(&parent))
}

/// Whether no process has this id. With `hidepid`, `/proc` does not show the processes of other users, but the kernel knows them.
fn has_ended(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

impl ProcessTree {
    /// The descendants of this process, including daemons.
    pub fn of_this_process(kernel: &Kernel) -> Result<Self, Error> {
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::debug!(%error, "daemons of the build will not be seen");
        }
        let proc = kernel.path("/proc");
        let absent = || Error::content_error(&proc, "the processes of the agent's pid namespace");
        Self::of(kernel, OwnEntry::find(&proc).id().ok_or_else(absent)?)
    }

    /// The descendants of process `top`, measured from now on.
    pub fn of(kernel: &Kernel, top: i32) -> Result<Self, Error> {
        let mut tree = Self::of_root(kernel.path("/proc"), top);
        tree.base_ticks = tree.own_waited_ticks().map_err(|error| tree.to_error(error))?;
        Ok(tree)
    }

    /// Process `top`, which the agent did not start, and its descendants, measured since they started. `proc` is the `/proc` folder that
    /// shows them.
    pub fn with_root(proc: PathBuf, top: i32) -> Result<Self, Error> {
        let mut tree = Self::of_root(proc, top);
        let root = tree
            .open_process(top)
            .and_then(|process| process.stat())
            .map_err(|error| tree.to_error(error))?;
        tree.daemons = Some(Box::new(Daemons::of(&tree.proc, root)));
        Ok(tree)
    }

    fn of_root(proc: PathBuf, top: i32) -> Self {
        Self {
            shared: SharedPages::new(proc.clone()),
            proc,
            root_pid: top,
            daemons: None,
            ticks_per_second: procfs::ticks_per_second().max(1),
            base_ticks: 0,
            cpu_usec: 0,
            pids: Vec::new(),
        }
    }

    /// Finds the processes of the build without reading their memory, and returns their ids.
    pub(crate) fn find(&mut self) -> Result<Vec<i32>, Error> {
        let stats = self.read_stats()?;
        Ok(self.select(&stats).0.iter().map(|stat| stat.pid).collect())
    }

    fn read_stats(&self) -> Result<Vec<Stat>, Error> {
        all_stats(&self.proc).map_err(|problem| Error::new(&self.proc, problem))
    }

    /// The processes of the build, and the CPU time in clock ticks of those that nothing else includes any more.
    fn select<'s>(&mut self, stats: &'s [Stat]) -> (Vec<&'s Stat>, u64) {
        let Some(daemons) = &mut self.daemons else {
            let waited = self.own_waited_ticks().unwrap_or(0);
            return (descendants(stats, &[self.root_pid]), waited.saturating_sub(self.base_ticks));
        };
        let tops = daemons.tops(stats);
        let mut of_build = descendants(stats, &tops);
        of_build.extend(stats.iter().filter(|stat| tops.contains(&stat.pid)));
        of_build.retain(|stat| !daemons.is_agent(stat));
        let ended = daemons.record(&of_build, &tops);
        (of_build, ended)
    }

    /// Reads all processes.
    pub fn read(&mut self) -> Result<Reading, Error> {
        let stats = self.read_stats()?;
        let (of_build, mut all_ticks) = self.select(&stats);
        let mut seen = Vec::with_capacity(of_build.len());
        for stat in &of_build {
            all_ticks = all_ticks.saturating_add(ticks(stat));
            let status = kernel::read(&self.proc.join(stat.pid.to_string()).join("status")).ok().flatten();
            if let Some(resident) = status.map(|status| ResidentMemory::of_status(&status)) {
                let (pid, parent, started) = (stat.pid, stat.ppid, stat.starttime);
                seen.push(SeenProcess { pid, parent, started, resident });
            }
        }
        self.pids = of_build.iter().map(|stat| stat.pid).collect();
        let mut reading = self.sizes(&seen);
        self.cpu_usec = self.cpu_usec.max(all_ticks.saturating_mul(1_000_000) / self.ticks_per_second);
        reading.cpu_usec = self.cpu_usec;
        Ok(reading)
    }

    fn sizes(&mut self, seen: &[SeenProcess]) -> Reading {
        // sums over the processes with a known share, and the largest shared memory of any other process
        let (mut reading, mut apart, mut shared) = (Reading::default(), 0_u64, 0);
        for (process, part) in seen.iter().zip(self.shared.shares(seen)) {
            match part {
                Some(part) => apart = apart.saturating_add(part.shared),
                None => shared = shared.max(process.resident.shared),
            }
            let ResidentMemory { anonymous, file, .. } = part.unwrap_or(process.resident);
            reading.memory = reading.memory.saturating_add(file);
            reading.need = reading.need.saturating_add(anonymous);
        }
        reading.need = reading.need.saturating_add(apart).saturating_add(shared);
        reading.memory = reading.memory.saturating_add(reading.need);
        reading
    }

    /// The folder that shows the processes.
    pub(crate) fn proc(&self) -> &Path {
        &self.proc
    }

    /// Id of the process that the build descends from.
    pub(crate) fn root(&self) -> i32 {
        self.root_pid
    }

    /// A text for the job's log if a daemon of the build may be missing.
    pub(crate) fn notice(&self) -> Option<&str> {
        self.daemons.as_ref()?.notice.as_deref()
    }

    /// Ids of the processes of the last reading.
    pub(crate) fn pids(&self) -> &[i32] {
        &self.pids
    }

    fn own_waited_ticks(&self) -> ProcResult<u64> {
        Ok(waited(&self.open_process(self.root_pid)?.stat()?))
    }

    fn open_process(&self, pid: i32) -> ProcResult<Process> {
        Process::new_with_root(self.proc.join(pid.to_string()))
    }

    fn to_error(&self, error: procfs::ProcError) -> Error {
        Error::new(&self.proc, io::Error::other(error))
    }
}

/// CPU time, in clock ticks, of the children that a process has reaped, and of their children.
fn waited(stat: &Stat) -> u64 {
    u64::try_from(stat.cutime.saturating_add(stat.cstime)).unwrap_or(0)
}

/// CPU time, in clock ticks, of a process and of the children that it has reaped.
fn ticks(stat: &Stat) -> u64 {
    stat.utime.saturating_add(stat.stime).saturating_add(waited(stat))
}

/// A process that the agent starts for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentProcess {
    /// Shows which signals the process group gets.
    Witness,
    /// Continues what is paused if the agent dies.
    Guardian,
}

/// The processes that the agent started for itself, in the order of [`AgentProcess`]; 0 if there is none.
static LEFT_OUT: [AtomicI32; 2] = [AtomicI32::new(0), AtomicI32::new(0)];

/// Leaves out a process that the agent started for itself, which is no part of any build; 0 for none.
pub fn leave_out(process: AgentProcess, pid: i32) {
    let [witness, guardian] = &LEFT_OUT;
    let place = if process == AgentProcess::Witness { witness } else { guardian };
    place.store(pid, Ordering::Relaxed);
}

fn is_left_out(pid: i32) -> bool {
    LEFT_OUT.iter().any(|left_out| left_out.load(Ordering::Relaxed) == pid)
}

/// All processes below `tops`, without these themselves.
fn descendants<'s>(stats: &'s [Stat], tops: &[i32]) -> Vec<&'s Stat> {
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for stat in stats.iter().filter(|stat| !is_left_out(stat.pid)) {
        children.entry(stat.ppid).or_default().push(stat);
    }
    let mut found: Vec<&Stat> = tops.iter().filter_map(|top| children.remove(top)).flatten().collect();
    let mut looked_at = 0;
    while let Some(stat) = found.get(looked_at) {
        // the entry is removed from the map, so that reused process ids cannot cause an endless loop
        let more = children.remove(&stat.pid).unwrap_or_default();
        found.extend(more);
        looked_at += 1;
    }
    found
}

#[cfg(test)]
mod tests;
