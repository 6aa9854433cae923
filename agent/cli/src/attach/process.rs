//! Reads other processes from `/proc`: start time, state, and container.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt as _, path::Path, time::Duration};

use plimsoll_measure::{cgroup::foreign::container_of, kernel};
use procfs::process::Process as Shown;

use super::kubernetes::ContainerName;

/// A process. Its id and its start time together identify it, even if the id is used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// When the process started, in clock ticks since the machine started.
    pub(super) started: u64,
    pub(super) parent: i32,
    /// Name of the process's program, which the kernel cuts to 15 bytes.
    pub(super) name: String,
}

impl Process {
    /// Reads the process `pid`; `None` if it does not run. A zombie does not run.
    pub(super) fn read(proc: &Path, pid: i32) -> Option<Self> {
        let stat = Shown::new_with_root(proc.join(pid.to_string())).ok()?.stat().ok()?;
        let runs = !matches!(stat.state, 'Z' | 'X' | 'x');
        runs.then_some(Self { pid, started: stat.starttime, parent: stat.ppid, name: stat.comm })
    }

    /// All running processes.
    pub(super) fn all_running(proc: &Path) -> Vec<Self> {
        let entries = fs::read_dir(proc).into_iter().flatten().flatten();
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        entries.filter_map(pid).filter_map(|pid| Self::read(proc, pid)).collect()
    }

    /// Whether the process is still running; another process with the same id does not count.
    pub(super) fn is_running(&self, proc: &Path) -> bool {
        Self::read(proc, self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Time since the process started, when the machine has run for `since_boot`.
    pub(super) fn age(&self, since_boot: Duration) -> Duration {
        let ticks = u32::try_from(procfs::ticks_per_second().max(1)).unwrap_or(100);
        let whole = Duration::from_secs(self.started / u64::from(ticks));
        let rest = u32::try_from(self.started % u64::from(ticks)).unwrap_or(0);
        since_boot.saturating_sub(whole + Duration::from_secs(1) * rest / ticks)
    }

    /// The process's cgroups: the text of `/proc/PID/cgroup`, empty if the process has ended.
    pub(super) fn memberships(&self, proc: &Path) -> String {
        self.proc_text(proc, "cgroup")
    }

    /// Id of the container that the process is in; `None` outside of containers.
    pub(super) fn container(&self, proc: &Path) -> Option<String> {
        container_of(&self.memberships(proc))
    }

    /// Pod and name of the process's container, if the kubelet created it.
    pub(super) fn kubernetes(&self, proc: &Path) -> Option<ContainerName> {
        ContainerName::parse(&self.proc_text(proc, "mountinfo"))
    }

    fn proc_text(&self, proc: &Path, file: &str) -> String {
        kernel::read(&proc.join(self.pid.to_string()).join(file)).ok().flatten().unwrap_or_default()
    }
}

/// The command line of process `pid` in this `/proc`; empty if it cannot be read.
pub fn command_line(proc: Option<&Path>, pid: i32) -> Vec<OsString> {
    let file = proc.unwrap_or_else(|| Path::new("/proc")).join(pid.to_string()).join("cmdline");
    let bytes = kernel::read_bytes(&file).unwrap_or_default();
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_start_time() {
        let own = i32::try_from(std::process::id()).unwrap();
        let proc = Path::new("/proc");
        let process = Process::read(proc, own).unwrap();
        assert!(process.is_running(proc));
        let reused = Process { started: process.started + 1, ..process };
        assert!(!reused.is_running(proc));
    }

    #[test]
    fn process_age_uses_the_boot_clock() {
        let start = plimsoll_measure::clock::since_boot();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::read(Path::new("/proc"), i32::try_from(child.id()).unwrap()).unwrap();
        let (tick, end) = (Duration::from_millis(10), plimsoll_measure::clock::since_boot());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.age(end) <= end.saturating_sub(start) + tick, "{process:?}, {start:?} to {end:?}");
        assert!(process.age(start.saturating_sub(tick)).is_zero(), "{process:?}, {start:?} to {end:?}");
    }
}
