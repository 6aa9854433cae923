//! What the agent can see of the machine.

use std::path::{Path, PathBuf};

use plimsoll_measure::{
    cgroup::{
        Cgroup,
        folder::members,
        foreign::{CgroupMounts, container_id},
    },
    kernel::{self, Kernel},
};

use super::kubernetes::ContainerName;

/// The agent's view of the machine: its `/proc` and its cgroups.
#[derive(Debug)]
pub(super) struct HostView {
    pub(super) kernel: Kernel,
    /// Where processes are shown: the agent's own `/proc`, or the host's.
    pub(super) proc: PathBuf,
    /// The host's cgroup folder.
    pub(super) host_cgroup: Option<PathBuf>,
    /// `/proc/self/cgroup`, to recognize the agent's own processes.
    pub(super) memberships: String,
    /// The agent's own pod and container.
    pub(super) own_container: Option<ContainerName>,
    /// Whether a cgroup that the agent itself is in measures the build as well.
    pub(super) takes_own: bool,
    /// Ids in the agent's own mount table: of its container, and of its pod's sandbox, whose hostname and resolver files containerd and
    /// CRI-O mount into all containers.
    pub(super) related: Vec<String>,
}

impl HostView {
    /// Determines what is visible.
    pub(super) fn new(kernel: &Kernel, host_proc: Option<&Path>, host_cgroup: Option<&Path>) -> Self {
        let text = |path: &str| kernel::read(&kernel.path(path)).ok().flatten().unwrap_or_default();
        let mountinfo = text("/proc/self/mountinfo");
        let roots = mountinfo.lines().filter_map(|line| line.split(' ').nth(3));
        Self {
            kernel: kernel.clone(),
            proc: kernel.path(host_proc.unwrap_or_else(|| Path::new("/proc"))),
            host_cgroup: host_cgroup.map(|folder| kernel.path(folder)),
            memberships: text("/proc/self/cgroup"),
            own_container: ContainerName::parse(&mountinfo),
            takes_own: false,
            related: roots
                .flat_map(|root| root.split('/').filter_map(container_id))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Whether the agent is in a group or below it. Such a group includes the agent, and is never empty.
    pub(super) fn is_in(group: &Cgroup) -> bool {
        i32::try_from(std::process::id()).is_ok_and(|own| members(&group.dir).contains(&own))
    }

    /// The hierarchies to search for a group: the host's if it was given, else the agent's own.
    pub(super) fn searched(&self) -> Result<CgroupMounts, kernel::Error> {
        match &self.host_cgroup {
            Some(folder) => CgroupMounts::at(folder),
            None => CgroupMounts::mounted(&self.kernel),
        }
    }

    /// Whether process ids in this `/proc` are valid for the agent's system calls.
    pub(super) fn shows_real_processes(&self) -> bool {
        self.proc == Path::new("/proc")
    }

    /// Whether process ids of the agent's own namespace can be looked up: not with the host's `/proc`.
    pub(super) fn shows_own_namespace(&self) -> bool {
        self.proc == self.kernel.path("/proc")
    }
}
