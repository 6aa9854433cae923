//! Processes of others, as a `/proc` shows them: when they began, whether they have ended, and which container they are in.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt as _, path::Path, time::Duration};

use procfs::process::Process as Shown;

use super::site::Site;
use crate::{cgroup::foreign::container_of, kernel};

/// One process. Its number and the moment of its start together belong to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// Clock ticks from the start of the machine to its own.
    pub(super) started: u64,
    pub(super) parent: i32,
    /// Name of its program, as short as the kernel keeps it.
    pub(super) name: String,
}

impl Process {
    /// Process `pid`, if it runs. One that has ended and is not waited for yet does not.
    pub(super) fn read(proc: &Path, pid: i32) -> Option<Self> {
        let stat = Shown::new_with_root(proc.join(pid.to_string())).ok()?.stat().ok()?;
        let runs = !matches!(stat.state, 'Z' | 'X' | 'x');
        runs.then_some(Self { pid, started: stat.starttime, parent: stat.ppid, name: stat.comm })
    }

    /// All that run.
    pub(super) fn all(proc: &Path) -> Vec<Self> {
        let entries = fs::read_dir(proc).into_iter().flatten().flatten();
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        entries.filter_map(pid).filter_map(|pid| Self::read(proc, pid)).collect()
    }

    /// Says whether it still runs; another process with the same number is not it.
    pub(super) fn runs(&self, proc: &Path) -> bool {
        Self::read(proc, self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Time since its start; zero if nothing says what time it is.
    pub(super) fn age(&self, site: &Site) -> Duration {
        let ticks = u32::try_from(procfs::ticks_per_second().max(1)).unwrap_or(100);
        let uptime = kernel::read(&site.proc.join("uptime")).ok().flatten();
        let uptime = uptime.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let uptime = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
        let whole = Duration::from_secs(self.started / u64::from(ticks));
        let rest = u32::try_from(self.started % u64::from(ticks)).unwrap_or(0);
        uptime.saturating_sub(whole + Duration::from_secs(1) * rest / ticks)
    }

    /// Where it is in the hierarchies: the text of `/proc/PID/cgroup`, empty if it has ended.
    pub(super) fn memberships(&self, proc: &Path) -> String {
        self.text(proc, "cgroup")
    }

    /// The id of its container, if it is in one.
    pub(super) fn container(&self, proc: &Path) -> Option<String> {
        container_of(&self.memberships(proc))
    }

    /// The pod and the name of its container, where kubelet has made it.
    pub(super) fn kubernetes(&self, proc: &Path) -> Option<Place> {
        Place::parse(&self.text(proc, "mountinfo"))
    }

    fn text(&self, proc: &Path, file: &str) -> String {
        kernel::read(&proc.join(self.pid.to_string()).join(file)).ok().flatten().unwrap_or_default()
    }
}

/// Where a container stands in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pod: String,
    pub(super) container: String,
}

impl Place {
    /// Reads it from a mount table: kubelet gives each container a file for its last words, and mounts it from
    /// `.../pods/UID/containers/NAME/SERIAL`. Anybody may read the mount table of a process.
    pub(super) fn parse(mountinfo: &str) -> Option<Self> {
        mountinfo.lines().find_map(|line| {
            let mut parts = line.split(' ').nth(3)?.rsplit('/');
            let (_serial, container, containers) = (parts.next()?, parts.next()?, parts.next()?);
            let (pod, pods) = (parts.next()?, parts.next()?);
            (containers == "containers" && pods == "pods")
                .then(|| Self { pod: pod.to_owned(), container: container.to_owned() })
        })
    }
}

/// The command line of process `pid`, below the `/proc` given; empty if there is none to be read.
pub fn command_line(proc: Option<&Path>, pid: i32) -> Vec<OsString> {
    let file = proc.unwrap_or_else(|| Path::new("/proc")).join(pid.to_string()).join("cmdline");
    let bytes = fs::read(file).unwrap_or_default();
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_container_is_in_its_mount_table() {
        let table = "1 2 254:1 / / rw - ext4 /dev/vda1 rw\n\
            9 2 254:1 /var/lib/kubelet/pods/5f0e/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n\
            9 2 254:1 /data/kubelet/pods/5f0e/containers/build/2a1b /dev/termination-log rw - ext4 /dev/vda1 rw\n";
        let place = Place::parse(table).unwrap();
        assert_eq!((place.pod.as_str(), place.container.as_str()), ("5f0e", "build"));
        assert_eq!(Place::parse("1 2 254:1 / / rw - ext4 x rw\nbroken\n"), None);
    }

    #[test]
    fn a_process_is_known_by_its_start_and_not_by_its_number() {
        let own = i32::try_from(std::process::id()).unwrap();
        let proc = Path::new("/proc");
        let process = Process::read(proc, own).unwrap();
        assert!(process.runs(proc));
        let reused = Process { started: process.started + 1, ..process };
        assert!(!reused.runs(proc));
    }
}
