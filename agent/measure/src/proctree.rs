//! Measures a build by its processes, for machines on which no cgroup counts them.
//!
//! This is less exact than a cgroup, and the numbers are marked accordingly. A page that several processes share counts once: each process
//! counts its part of the page (`Pss` of `smaps_rollup`, Linux 5.4). If that cannot be read, for example for another user's process,
//! anonymous memory counts for each process that has it, so the need of a build that forks may be too high; of shared memory only the
//! amount of the process that maps most of it counts, so it may be too low. Not seen at all are files in a tmpfs (`/dev/shm`) that no
//! process maps, kernel memory, and OOM kills.
//!
//! Descendants are found by their parent's id. A process becomes a child of init when its parent ends, and would be lost; so the agent
//! declares itself the reaper of its descendants.

mod shares;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use procfs::{
    ProcResult,
    process::{Process, Stat, all_processes_with_root},
};

use self::shares::{ResidentMemory, SeenProcess, SharedPages};
use crate::{
    kernel::{self, Error, Kernel},
    offload::ServicePrograms,
    reading::Reading,
};

/// All descendants of one process.
#[derive(Debug)]
pub struct ProcessTree {
    proc: PathBuf,
    root_pid: i32,
    /// Whether the build includes `top` itself, not only its descendants.
    counts_root: bool,
    ticks_per_second: u64,
    /// CPU time, in clock ticks, of the children that this process had reaped before the build started.
    base_ticks: u64,
    /// Highest CPU time so far, microseconds. The CPU time of a process that ends without being reaped is lost, so later sums can be lower.
    cpu_usec: u64,
    /// Ids of the processes of the last reading.
    pids: Vec<i32>,
    shared: SharedPages,
}

/// Anonymous and shared bytes of the processes listed in the file `procs` (`cgroup.procs`), without this process. `None` if one of them is
/// not visible here; a process that has ended counts as 0.
pub fn resident_of_others(kernel: &Kernel, procs: &Path) -> Option<u64> {
    let list = kernel::read(procs).ok()?.unwrap_or_default();
    let own = std::process::id();
    let others = list.lines().filter_map(|pid| pid.trim().parse::<u32>().ok()).filter(|&pid| pid != own);
    others.map(|pid| resident_of(kernel, pid)).try_fold(0, |sum: u64, bytes| Some(sum.saturating_add(bytes?)))
}

fn resident_of(kernel: &Kernel, pid: u32) -> Option<u64> {
    // a process of another pid namespace is listed with the id 0
    let status = kernel::read(&kernel.path(format!("/proc/{pid}/status"))).ok().filter(|_| pid != 0)?;
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let status = status.unwrap_or_default();
    let sizes = status.lines().filter(|line| line.starts_with("RssAnon:") || line.starts_with("RssShmem:"));
    Some(sizes.filter_map(kib).sum::<u64>().saturating_mul(1024))
}

/// Most parents that are followed from one process. Real chains are shorter; the limit prevents an endless loop if a process id is reused.
const MAX_PARENTS: usize = 64;

/// Ids of the running descendants of process `top`, read from the folder `proc`.
pub(crate) fn below(proc: &Path, top: i32) -> BTreeSet<i32> {
    let Ok(processes) = all_processes_with_root(proc) else { return BTreeSet::new() };
    let stats: Vec<Stat> = processes.flatten().filter_map(|process| process.stat().ok()).collect();
    // a zombie uses nothing, and v1 shows it in the root group
    let runs = |stat: &&Stat| !matches!(stat.state, 'Z' | 'X');
    descendants(&stats, top).into_iter().filter(runs).map(|stat| stat.pid).collect()
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
        let top = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        Self::of(kernel, top)
    }

    /// The descendants of process `top`, measured from now on.
    pub fn of(kernel: &Kernel, top: i32) -> Result<Self, Error> {
        let mut tree = Self::of_root(kernel.path("/proc"), top);
        tree.base_ticks = tree.own_waited_ticks().map_err(|error| tree.to_error(error))?;
        Ok(tree)
    }

    /// Process `top`, which the agent did not start, and its descendants, measured since they started. `proc` is the `/proc` folder that
    /// shows them. A descendant is lost when its parent ends, because the kernel then gives it a parent outside the build.
    pub fn with_root(proc: PathBuf, top: i32) -> Result<Self, Error> {
        let tree = Self { counts_root: true, ..Self::of_root(proc, top) };
        tree.own_waited_ticks().map_err(|error| tree.to_error(error))?;
        Ok(tree)
    }

    fn of_root(proc: PathBuf, top: i32) -> Self {
        Self {
            shared: SharedPages::new(proc.clone()),
            proc,
            root_pid: top,
            counts_root: false,
            ticks_per_second: procfs::ticks_per_second().max(1),
            base_ticks: 0,
            cpu_usec: 0,
            pids: Vec::new(),
        }
    }

    /// Reads all processes.
    pub fn read(&mut self) -> Result<Reading, Error> {
        let processes = all_processes_with_root(&self.proc).map_err(|error| self.to_error(error))?;
        // a process that ends while it is read is no error: its parent reaps it, and then includes its CPU time
        let stats: Vec<Stat> = processes.flatten().filter_map(|process| process.stat().ok()).collect();
        let waited_before = if self.counts_root { 0 } else { self.own_waited_ticks().unwrap_or(0) };
        let mut ticks = waited_before.saturating_sub(self.base_ticks);
        let top = stats.iter().filter(|stat| self.counts_root && stat.pid == self.root_pid);
        let of_build: Vec<&Stat> = descendants(&stats, self.root_pid).into_iter().chain(top).collect();
        let mut seen = Vec::with_capacity(of_build.len());
        for stat in &of_build {
            ticks = ticks.saturating_add(stat.utime).saturating_add(stat.stime).saturating_add(waited(stat));
            if let Ok(resident) = self.read_resident(stat.pid) {
                let (pid, parent, started) = (stat.pid, stat.ppid, stat.starttime);
                seen.push(SeenProcess { pid, parent, started, resident });
            }
        }
        self.pids = of_build.iter().map(|stat| stat.pid).collect();
        let mut reading = self.sizes(&seen);
        self.cpu_usec = self.cpu_usec.max(ticks.saturating_mul(1_000_000) / self.ticks_per_second);
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

    /// Programs that have their work done elsewhere, at the last reading.
    pub fn service_programs(&self) -> ServicePrograms {
        ServicePrograms::among_processes(&self.proc, self.pids.iter().copied())
    }

    fn read_resident(&self, pid: i32) -> ProcResult<ResidentMemory> {
        let status = self.open_process(pid)?.status()?;
        let bytes = |kib: Option<u64>| kib.unwrap_or(0).saturating_mul(1024);
        let (anonymous, shared) = (bytes(status.rssanon), bytes(status.rssshmem));
        let file = bytes(status.vmrss).saturating_sub(anonymous.saturating_add(shared));
        Ok(ResidentMemory { anonymous, shared, file })
    }

    fn own_waited_ticks(&self) -> ProcResult<u64> {
        Ok(waited(&self.open_process(self.root_pid)?.stat()?))
    }

    fn open_process(&self, pid: i32) -> ProcResult<Process> {
        Process::new_with_root(self.proc.join(pid.to_string()))
    }

    fn to_error(&self, error: procfs::ProcError) -> Error {
        Error::new(&self.proc, std::io::Error::other(error))
    }
}

/// CPU time, in clock ticks, of the children that a process has reaped, and of their children.
fn waited(stat: &Stat) -> u64 {
    u64::try_from(stat.cutime.saturating_add(stat.cstime)).unwrap_or(0)
}

/// A process that the agent started for itself; 0 if there is none.
static LEFT_OUT: AtomicI32 = AtomicI32::new(0);

/// Leaves out a process that the agent started for itself, which is no part of any build.
pub fn leave_out(pid: i32) {
    LEFT_OUT.store(pid, Ordering::Relaxed);
}

fn is_left_out(pid: i32) -> bool {
    LEFT_OUT.load(Ordering::Relaxed) == pid
}

/// All processes below `top`, without `top` itself.
fn descendants(stats: &[Stat], top: i32) -> Vec<&Stat> {
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for stat in stats.iter().filter(|stat| !is_left_out(stat.pid)) {
        children.entry(stat.ppid).or_default().push(stat);
    }
    let mut found = children.remove(&top).unwrap_or_default();
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
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    /// pid, parent, utime, stime, cutime, cstime
    fn process(fake: &FakeKernel, pid: i32, parent: i32, ticks: [u64; 4], anon_kib: u64) {
        let [user, system, child_user, child_system] = ticks;
        let zeros = "0 ".repeat(35);
        let stat = format!(
            "{pid} (a b) c) S {parent} {pid} {pid} 0 -1 4194304 0 0 0 0 {user} {system} {child_user} {child_system} \
             20 0 1 0 100 1000 10 {zeros}\n"
        );
        fake.write(&format!("/proc/{pid}/stat"), &stat);
        let real = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = |line: &str| match line.split_once(':').map(|(name, _value)| name) {
            Some("RssAnon") => format!("RssAnon:\t{anon_kib} kB\n"),
            Some("RssShmem") => "RssShmem:\t8 kB\n".to_owned(),
            Some("VmRSS") => format!("VmRSS:\t{} kB\n", anon_kib + 108),
            _other => format!("{line}\n"),
        };
        fake.write(&format!("/proc/{pid}/status"), &real.lines().map(line).collect::<String>());
    }

    #[test]
    fn a_process_that_runs_and_is_hidden_has_not_ended() {
        let hidden = tempfile::tempdir().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let known = BTreeSet::new();
        assert!(!is_below_or_ended(hidden.path(), own, 1, &known));
        assert!(is_below_or_ended(hidden.path(), i32::MAX, 1, &known), "no process has this id");
    }

    #[test]
    fn only_descendants_count_and_cpu_never_goes_back() {
        let fake = FakeKernel::new();
        process(&fake, 10, 1, [9, 9, 100, 0], 50_000);
        process(&fake, 11, 10, [100, 50, 0, 0], 1000);
        process(&fake, 12, 11, [50, 0, 200, 0], 2000);
        process(&fake, 13, 1, [999, 0, 0, 0], 90_000);
        let mut tree = ProcessTree::of(&fake.kernel(), 10).unwrap();
        let reading = tree.read().unwrap();
        assert_eq!(reading.need, (1000 + 2000 + 8) * 1024, "both map the same 8 KiB");
        assert_eq!(reading.memory, (1100 + 2100 + 8) * 1024);
        assert_eq!(reading.cpu_usec, 400 * 1_000_000 / procfs::ticks_per_second());
        assert_eq!((reading.oom_kill, reading.memory_peak), (None, None));
        fake.remove("/proc/12/stat");
        assert_eq!(tree.read().unwrap().cpu_usec, reading.cpu_usec);
    }

    #[test]
    fn pages_that_processes_share_count_once() {
        let fake = FakeKernel::new();
        process(&fake, 10, 1, [0; 4], 0);
        for pid in 11..15 {
            process(&fake, pid, 10, [0; 4], 400_000);
            let rollup = "00400000-7fff rollup\nRss: 400108 kB\nPss: 100027 kB\nPss_Dirty: 1 kB\nPss_Anon: 100000 kB\nPss_File: 25 kB\nPss_Shmem: 2 kB\n";
            fake.write(&format!("/proc/{pid}/smaps_rollup"), rollup);
        }
        let mut tree = ProcessTree::of(&fake.kernel(), 10).unwrap();
        let reading = tree.read().unwrap();
        assert_eq!(reading.need, 4 * (100_000 + 2) * 1024);
        assert_eq!(reading.memory, 4 * (100_000 + 2 + 25) * 1024);
        fake.remove("/proc/14/smaps_rollup");
        let reading = tree.read().unwrap();
        assert_eq!(
            reading.need,
            (3 * (100_000 + 2) + 400_000 + 8) * 1024,
            "what cannot be read counts whole"
        );
    }

    #[test]
    fn a_build_that_others_started_counts_with_its_first_process_from_its_beginning() {
        let fake = FakeKernel::new();
        process(&fake, 10, 1, [9, 1, 100, 0], 50_000);
        process(&fake, 11, 10, [100, 50, 0, 0], 1000);
        let mut tree = ProcessTree::with_root(fake.kernel().path("/proc"), 10).unwrap();
        let reading = tree.read().unwrap();
        assert_eq!(reading.need, (50_000 + 1000 + 8) * 1024);
        assert_eq!(reading.cpu_usec, 260 * 1_000_000 / procfs::ticks_per_second());
        assert!(ProcessTree::with_root(fake.kernel().path("/proc"), 12).is_err());
    }

    #[test]
    fn a_real_process_is_seen_with_its_memory_and_its_cpu_time_after_its_end() {
        // the shell's own pipe says when tail has read everything; then it holds all of it until its input ends
        let script =
            "{ head -c 60000000 /dev/zero; echo; echo full >&2; read -r line <&3; } 3<&0 | tail >/dev/null";
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // below the shell: other tests of this program have children too
        let mut tree = ProcessTree::of(&Kernel::running(), i32::try_from(child.id()).unwrap()).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stderr.take().unwrap()), &mut line)
            .unwrap();
        let mut reading = tree.read().unwrap();
        // the last pipe full may still be on its way to tail
        while reading.need < 50_000_000 {
            reading = tree.read().unwrap();
        }
        assert!(reading.need < 100_000_000, "{reading:?}");
        assert!(reading.memory >= reading.need);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(tree.read().unwrap().cpu_usec >= reading.cpu_usec);
    }
}
