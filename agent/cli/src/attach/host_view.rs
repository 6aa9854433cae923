//! What the agent can see of the machine that the build runs on.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use plimsoll_measure::{
    cgroup::{
        Cgroup,
        folder::members,
        foreign::{CgroupMounts, container_id},
    },
    clock,
    kernel::{self, Kernel},
    proctree::OwnEntry,
};

use super::kubernetes::ContainerName;

/// The agent's view of the machine: its `/proc` and its cgroups.
#[derive(Debug)]
pub(super) struct HostView {
    pub(super) kernel: Kernel,
    /// Where processes are visible: the agent's own `/proc`, or the mounted `/proc` of the host.
    pub(super) proc: PathBuf,
    /// Whether this `/proc` was named, so that the ids of processes are those that it shows.
    pub(super) names_proc: bool,
    /// The mounted `/sys/fs/cgroup` of the host, if given.
    pub(super) host_cgroup: Option<PathBuf>,
    /// The agent's own cgroups (`/proc/self/cgroup`), to recognize processes of the agent's container.
    pub(super) memberships: String,
    /// Pod and name of the agent's own container.
    pub(super) own_container: Option<ContainerName>,
    /// Whether the build may be measured by a cgroup that the agent itself is in.
    pub(super) accepts_own_group: bool,
    /// Whether the build is the job of a runner, which runs in the same cgroup.
    pub(super) is_of_runner: bool,
    /// Container ids in the agent's own mount table: that of its container, and that of its pod's pause
    /// container (containerd and CRI-O mount files of it into all containers of the pod).
    pub(super) related_ids: Vec<String>,
    /// Reads the time since the machine started.
    pub(super) boot_clock: fn() -> Duration,
}

impl HostView {
    /// Reads the agent's own mounts and cgroups.
    pub(super) fn new(kernel: &Kernel, host_proc: Option<&Path>, host_cgroup: Option<&Path>) -> Self {
        let text = |path: &str| kernel::read(&kernel.path(path)).ok().flatten().unwrap_or_default();
        let mountinfo = text("/proc/self/mountinfo");
        let roots = mountinfo.lines().filter_map(|line| line.split(' ').nth(3));
        Self {
            kernel: kernel.clone(),
            proc: kernel.path(host_proc.unwrap_or_else(|| Path::new("/proc"))),
            names_proc: host_proc.is_some(),
            host_cgroup: host_cgroup.map(|folder| kernel.path(folder)),
            memberships: text("/proc/self/cgroup"),
            own_container: ContainerName::parse(&mountinfo),
            accepts_own_group: false,
            is_of_runner: false,
            boot_clock: clock::since_boot,
            related_ids: roots
                .flat_map(|root| root.split('/').filter_map(container_id))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Whether the agent is in this group or in a group below it. Such a group is never empty.
    pub(super) fn is_in(group: &Cgroup) -> bool {
        i32::try_from(std::process::id()).is_ok_and(|own| members(&group.dir).contains(&own))
    }

    /// The cgroup mounts in which groups are searched: the host's if given, else the agent's own.
    pub(super) fn searched_mounts(&self) -> Result<CgroupMounts, kernel::Error> {
        match &self.host_cgroup {
            Some(folder) => CgroupMounts::at(folder),
            None => CgroupMounts::mounted(&self.kernel),
        }
    }

    /// Whether the process ids in this `/proc` are those that the agent's system calls take.
    pub(super) fn shows_real_processes(&self) -> bool {
        self.proc == Path::new("/proc") && self.shows_own_namespace()
    }

    /// Whether this `/proc` shows the process ids of the agent's own namespace; the host's does not.
    pub(super) fn shows_own_namespace(&self) -> bool {
        self.proc == self.kernel.path("/proc") && OwnEntry::find(&self.proc) == OwnEntry::Same
    }
}
