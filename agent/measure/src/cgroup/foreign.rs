//! Groups of processes that the agent did not start, and that may live in another container.
//!
//! [`super::find`] knows its own process and may take a mount for the answer. Here that would be wrong: in a container the mount
//! shows the agent's own group, whatever process was asked for. So a path counts only where it fits a mount exactly, and `..`,
//! with which the kernel shows a place outside of our cgroup namespace, never leads anywhere.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use super::{
    find::{Cgroup, CgroupVersion, Cgroups},
    folder::{is_group, members},
    parse::{Membership, Mount, parse_field, parse_memberships, parse_mounts},
};
use crate::kernel::{self, Error, Kernel};

/// The hierarchies that can be read from one place.
#[derive(Debug, Clone)]
pub struct CgroupMounts {
    mounts: Vec<Mount>,
}

/// Whether processes run in a group or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// At least one process runs there.
    Busy,
    /// No process runs there.
    Empty,
    /// The group was removed.
    Gone,
}

impl CgroupMounts {
    /// The hierarchies that are mounted in the agent's mount namespace.
    pub fn mounted(kernel: &Kernel) -> Result<Self, Error> {
        let table = kernel::read(&kernel.path("/proc/self/mountinfo"))?.unwrap_or_default();
        Ok(Self::of(&table, |point| kernel.path(point)))
    }

    /// The hierarchies that are mounted in the mount namespace of process `pid`, reached through its root folder below `proc`. That takes
    /// the same right as debugging the process.
    pub fn of_process(proc: &Path, pid: i32) -> Result<Self, Error> {
        let process = proc.join(pid.to_string());
        let table = kernel::read(&process.join("mountinfo"))?.unwrap_or_default();
        let root = Kernel::at(process.join("root"));
        Ok(Self::of(&table, |point| root.path(point)))
    }

    fn of(table: &str, place: impl Fn(&Path) -> PathBuf) -> Self {
        let mut mounts = parse_mounts(table);
        for mount in &mut mounts {
            mount.point = place(&mount.point);
        }
        Self { mounts }
    }

    /// The hierarchies in `folder`, which is a `/sys/fs/cgroup` from another mount namespace: v2 in the folder itself, or a folder for each
    /// v1 hierarchy.
    pub fn at(folder: &Path) -> Result<Self, Error> {
        let whole = |point: PathBuf, controllers| Mount { root: "/".into(), point, controllers };
        if is_group(folder)? {
            return Ok(Self { mounts: vec![whole(folder.to_owned(), None)] });
        }
        let entries = fs::read_dir(folder).map_err(|problem| Error::new(folder, problem))?;
        let hierarchy = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let controllers = name.split(',').map(str::to_owned).collect();
            Some(whole(entry.path(), (name != "unified").then_some(controllers)))
        };
        Ok(Self { mounts: entries.flatten().filter_map(hierarchy).collect() })
    }

    /// Where the hierarchies that charge memory are mounted.
    pub fn memory_mounts(&self) -> impl Iterator<Item = &Path> {
        let charges = |mount: &&Mount| serves(mount, Some("memory")) || serves(mount, None);
        self.mounts.iter().filter(charges).map(|mount| mount.point.as_path())
    }

    /// The groups at `path` below the mounts. If `path` begins with one of the mounts, the part after that mount is used for all of them.
    pub fn groups_at(&self, path: &Path) -> Result<Option<Cgroups>, Error> {
        let mut points = self.mounts.iter().filter_map(|mount| path.strip_prefix(&mount.point).ok());
        let below = points.next().or_else(|| path.strip_prefix("/").ok()).unwrap_or(path);
        self.groups(|_controller, _mount| Some(below.to_owned()))
    }

    /// The groups of a process, from the text of its `/proc/PID/cgroup`, `memberships`; of its whole container if that is given.
    pub fn groups_of(&self, memberships: &str, container: Option<&str>) -> Result<Option<Cgroups>, Error> {
        let memberships = parse_memberships(memberships);
        self.groups(|controller, mount| {
            let is_it = |found: &&Membership| {
                controller.map_or(found.controllers.is_empty(), |name| contains(&found.controllers, name))
            };
            let path = &memberships.iter().find(is_it)?.path;
            let path = container.map_or_else(|| path.clone(), |id| up_to_container(path, id));
            path.strip_prefix(&mount.root).ok().map(Path::to_owned)
        })
    }

    fn groups(
        &self,
        path: impl Fn(Option<&str>, &Mount) -> Option<PathBuf>,
    ) -> Result<Option<Cgroups>, Error> {
        let group = |controller| self.group(controller, &path);
        let unified = group(None)?;
        if let Some(memory) = group(Some("memory"))? {
            let cpu = group(Some("cpuacct"))?.or_else(|| unified.clone());
            let quota = group(Some("cpu"))?.or_else(|| unified.clone());
            let huge_pages = group(Some("hugetlb"))?.or(unified);
            return Ok(Some(Cgroups { memory, cpu, quota, huge_pages }));
        }
        if self.mounts.iter().any(|mount| serves(mount, Some("memory"))) {
            // v2 beside a v1 memory controller charges no memory
            return Ok(None);
        }
        Ok(unified.map(Cgroups::unified))
    }

    fn group(
        &self,
        controller: Option<&str>,
        path: impl Fn(Option<&str>, &Mount) -> Option<PathBuf>,
    ) -> Result<Option<Cgroup>, Error> {
        let version = if controller.is_some() { CgroupVersion::V1 } else { CgroupVersion::V2 };
        for mount in self.mounts.iter().filter(|mount| serves(mount, controller)) {
            let Some(below) = path(controller, mount) else { continue };
            if below.components().any(|part| part == Component::ParentDir) {
                continue;
            }
            // collecting the parts leaves no slash at the end when there is nothing below
            let dir: PathBuf = mount.point.components().chain(below.components()).collect();
            if is_group(&dir)? {
                return Ok(Some(Cgroup { mount: mount.point.clone(), dir, version }));
            }
        }
        Ok(None)
    }
}

fn serves(mount: &Mount, controller: Option<&str>) -> bool {
    match (&mount.controllers, controller) {
        (Some(names), Some(controller)) => contains(names, controller),
        (None, None) => true,
        _other => false,
    }
}

fn contains(names: &[String], name: &str) -> bool {
    names.iter().any(|found| found == name)
}

/// Cuts a path after the group of the container `id`: groups that the container made below its own are left out.
fn up_to_container(path: &Path, id: &str) -> PathBuf {
    let is_it = |part: &Component<'_>| part.as_os_str().to_str().and_then(container_id) == Some(id);
    let parts: Vec<Component<'_>> = path.components().collect();
    let end = parts.iter().position(is_it).map_or(parts.len(), |last| last + 1);
    parts.into_iter().take(end).collect()
}

/// The container's id in the name of a group: the name itself (cgroupfs driver), or what follows the runtime's name (systemd
/// driver: `cri-containerd-ID.scope`, `crio-ID.scope`, `docker-ID.scope`, `libpod-ID.scope`). Runtimes use 64 hexadecimal digits.
pub fn container_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // conmon watches over a container from a group of its own
    let is_id = id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !runtime.ends_with("conmon")).then_some(id)
}

/// The id of the container that a process is in, from its `/proc/PID/cgroup`.
pub fn container_of(memberships: &str) -> Option<String> {
    let id = |membership: &Membership| {
        let mut names = membership.path.components().filter_map(|part| part.as_os_str().to_str());
        names.find_map(container_id).map(str::to_owned)
    };
    parse_memberships(memberships).iter().find_map(id)
}

/// The number by which the kernel knows a group, the same wherever its hierarchy is mounted; `None` if it is gone.
pub fn identity(group: &Cgroup) -> Option<u64> {
    fs::metadata(&group.dir).ok().map(|found| found.ino())
}

/// Says whether processes run in a group or below it.
pub fn occupancy(group: &Cgroup) -> Result<Occupancy, Error> {
    if let Some(events) = kernel::read(&group.dir.join("cgroup.events"))? {
        let populated = parse_field(&events, "populated") != Some(0);
        return Ok(if populated { Occupancy::Busy } else { Occupancy::Empty });
    }
    if kernel::read(&group.dir.join("cgroup.procs"))?.is_none() {
        return Ok(Occupancy::Gone);
    }
    let busy = !members(&group.dir).is_empty() || counts_processes(group);
    Ok(if busy { Occupancy::Busy } else { Occupancy::Empty })
}

/// Whether the v1 controller `pids`, which is mounted next to the one for memory, counts processes in the group. It also counts those that
/// the agent's pid namespace does not show, which v1 does not list.
fn counts_processes(group: &Cgroup) -> bool {
    let below = group.dir.strip_prefix(&group.mount).unwrap_or_else(|_outside| Path::new(""));
    let file = group.mount.parent().map(|mounts| mounts.join("pids").join(below).join("pids.current"));
    let text = file.and_then(|file| kernel::read(&file).ok().flatten()).unwrap_or_default();
    group.version == CgroupVersion::V1 && text.trim().parse::<u64>().is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests;
