//! Groups of processes that the agent did not start, and that may live in another container.
//!
//! [`super::find`] knows its own process and may take a mount for the answer. Here that would be wrong: in a container the mount
//! shows the agent's own group, whatever process was asked for. So a path counts only where it fits a mount exactly, and `..`,
//! with which the kernel shows a place outside of our cgroup namespace, never leads anywhere.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use super::{
    find::{Group, Groups, Version},
    parse::{Membership, Mount, parse_field, parse_memberships, parse_mounts},
};
use crate::kernel::{self, Error, Kernel};

/// A group with more groups below it is looked at no further.
const MAX_BELOW: usize = 1000;

/// The hierarchies that can be read from one place.
#[derive(Debug, Clone)]
pub struct Layout {
    mounts: Vec<Mount>,
}

/// Whether anything runs in a group or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// Something does.
    Busy,
    /// Nothing does.
    Empty,
    /// The group was removed.
    Gone,
}

impl Layout {
    /// What is mounted where the agent is.
    pub fn mounted(kernel: &Kernel) -> Result<Self, Error> {
        let table = kernel::read(&kernel.path("/proc/self/mountinfo"))?.unwrap_or_default();
        Ok(Self::of(&table, |point| kernel.path(point)))
    }

    /// What is mounted where process `pid` is, reached through its root folder below `proc`. That takes the same right as to
    /// debug it.
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

    /// What lies in `folder`, a `/sys/fs/cgroup` from elsewhere: v2, or a folder for each v1 hierarchy.
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

    /// The groups at one path below the mounts; or, if it begins with one of the mounts, the group of that folder.
    pub fn groups_at(&self, path: &Path) -> Result<Option<Groups>, Error> {
        let mut points = self.mounts.iter().filter_map(|mount| path.strip_prefix(&mount.point).ok());
        let below = points.next().or_else(|| path.strip_prefix("/").ok()).unwrap_or(path);
        self.groups(|_controller, _mount| Some(below.to_owned()))
    }

    /// The groups of a process whose `/proc/PID/cgroup` is `memberships`; of its whole container if that is given.
    pub fn groups_of(&self, memberships: &str, container: Option<&str>) -> Result<Option<Groups>, Error> {
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
    ) -> Result<Option<Groups>, Error> {
        let group = |controller| self.group(controller, &path);
        let unified = group(None)?;
        if let Some(memory) = group(Some("memory"))? {
            let cpu = group(Some("cpuacct"))?.or_else(|| unified.clone());
            let quota = group(Some("cpu"))?.or(unified);
            return Ok(Some(Groups { memory, cpu, quota }));
        }
        if self.mounts.iter().any(|mount| serves(mount, Some("memory"))) {
            // v2 beside a v1 memory controller charges no memory
            return Ok(None);
        }
        let whole =
            |group: Group| Groups { memory: group.clone(), cpu: Some(group.clone()), quota: Some(group) };
        Ok(unified.map(whole))
    }

    fn group(
        &self,
        controller: Option<&str>,
        path: impl Fn(Option<&str>, &Mount) -> Option<PathBuf>,
    ) -> Result<Option<Group>, Error> {
        let version = if controller.is_some() { Version::V1 } else { Version::V2 };
        for mount in self.mounts.iter().filter(|mount| serves(mount, controller)) {
            let Some(below) = path(controller, mount) else { continue };
            if below.components().any(|part| part == Component::ParentDir) {
                continue;
            }
            // collecting the parts leaves no slash at the end when there is nothing below
            let dir: PathBuf = mount.point.components().chain(below.components()).collect();
            if is_group(&dir)? {
                return Ok(Some(Group { mount: mount.point.clone(), dir, version }));
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

/// Cuts off what a container made below its own group.
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

/// Says whether a folder is a group. What cannot be looked at is an error, not a "no".
pub fn is_group(dir: &Path) -> Result<bool, Error> {
    let file = dir.join("cgroup.procs");
    match fs::metadata(&file) {
        Ok(found) => Ok(found.is_file()),
        Err(problem) if matches!(problem.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(problem) => Err(Error::new(&file, problem)),
    }
}

/// The number by which the kernel knows a group, the same wherever its hierarchy is mounted; `None` if it is gone.
pub fn identity(group: &Group) -> Option<u64> {
    fs::metadata(&group.dir).ok().map(|found| found.ino())
}

/// Says whether anything runs in a group or below it.
pub fn occupancy(group: &Group) -> Result<Occupancy, Error> {
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

/// v1 does not list what our pid namespace does not show, but the `pids` controller counts it, beside the one for memory.
fn counts_processes(group: &Group) -> bool {
    let below = group.dir.strip_prefix(&group.mount).unwrap_or_else(|_outside| Path::new(""));
    let file = group.mount.parent().map(|mounts| mounts.join("pids").join(below).join("pids.current"));
    let text = file.and_then(|file| kernel::read(&file).ok().flatten()).unwrap_or_default();
    group.version == Version::V1 && text.trim().parse::<u64>().is_ok_and(|count| count > 0)
}

/// The processes in a group and below it; v2 has 0 for one that our pid namespace does not show.
pub fn members(dir: &Path) -> Vec<i32> {
    let mut dirs = vec![dir.to_owned()];
    let (mut pids, mut looked_at) = (Vec::new(), 0);
    while let Some(dir) = dirs.get(looked_at).cloned() {
        looked_at += 1;
        // a group that goes away meanwhile has no processes
        let text = kernel::read(&dir.join("cgroup.procs")).ok().flatten().unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()));
        dirs.extend(super::pod::folders(&dir).take(MAX_BELOW.saturating_sub(dirs.len())));
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fake::FakeKernel;

    const BUILD: &str = "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0";

    #[test]
    fn another_container_is_seen_through_the_root_of_its_process_and_never_taken_for_our_own() {
        // both have cgroup namespaces: the agent sees its neighbour as `/../ID`
        let fake = FakeKernel::v2("/");
        let memberships = format!("0::/../{BUILD}\n");
        let own = Layout::mounted(&fake.kernel()).unwrap();
        // where `..` would lead
        fake.write(&format!("/sys/fs/{BUILD}/cgroup.procs"), "1\n");
        assert!(own.groups_of(&memberships, None).unwrap().is_none());
        assert!(own.groups_of(&format!("0::/../{BUILD}/../x\n"), Some(BUILD)).unwrap().is_none());
        fake.write(
            "/proc/7/mountinfo",
            &format!("1 2 0:3 /../{BUILD} /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
        );
        fake.write("/proc/7/root/sys/fs/cgroup/cgroup.procs", "7\n");
        let proc = fake.kernel().path("/proc");
        let groups = Layout::of_process(&proc, 7).unwrap().groups_of(&memberships, None).unwrap().unwrap();
        assert_eq!(groups.memory.dir, proc.join("7/root/sys/fs/cgroup"));
        // a group that the build made below its own is not the whole build
        let nested = format!("{}/init.scope\n", memberships.trim());
        fake.write("/proc/7/root/sys/fs/cgroup/init.scope/cgroup.procs", "7\n");
        let layout = Layout::of_process(&proc, 7).unwrap();
        assert_eq!(layout.groups_of(&nested, Some(BUILD)).unwrap().unwrap(), groups);
        assert!(layout.groups_of(&nested, None).unwrap().unwrap().memory.dir.ends_with("init.scope"));
    }

    #[test]
    fn a_root_that_may_not_be_entered_is_an_error_and_not_an_absent_group() {
        let fake = FakeKernel::new();
        fake.write("/proc/7/mountinfo", "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        // root may enter everything; a link to itself refuses even root
        std::os::unix::fs::symlink("root", fake.kernel().path("/proc/7/root")).unwrap();
        let layout = Layout::of_process(&fake.kernel().path("/proc"), 7).unwrap();
        assert!(layout.groups_of("0::/\n", None).unwrap_err().to_string().contains("7/root/sys"));
    }

    #[test]
    fn v1_of_the_host_has_a_folder_for_each_hierarchy() {
        let fake = FakeKernel::hybrid("/docker/a b", "/docker/a b");
        let host = fake.kernel().path("/sys/fs/cgroup");
        let layout = Layout::at(&host).unwrap();
        let groups = layout.groups_at(Path::new("docker/a b")).unwrap().unwrap();
        assert_eq!(groups.memory.version, Version::V1);
        assert_eq!(groups.cpu.unwrap().dir, host.join("cpuacct/docker/a b"));
        let by_folder = layout.groups_at(&host.join("memory/docker/a b")).unwrap().unwrap();
        assert_eq!(by_folder.memory, groups.memory);
        assert!(layout.groups_at(Path::new("docker/../docker/a b")).unwrap().is_none());
        fake.write("/sys/fs/cgroup/unified/docker/other/cgroup.procs", "1\n");
        assert!(layout.groups_at(Path::new("docker/other")).unwrap().is_none(), "it charges no memory");
    }

    #[test]
    fn ids_are_found_in_the_names_of_all_runtimes() {
        for name in [
            BUILD.to_owned(),
            format!("cri-containerd-{BUILD}.scope"),
            format!("crio-{BUILD}.scope"),
            format!("docker-{BUILD}.scope"),
            format!("kubepods-burstable-pod1_2.slice:cri-containerd:{BUILD}"),
        ] {
            assert_eq!(container_id(&name), Some(BUILD), "{name}");
        }
        for name in [
            format!("crio-conmon-{BUILD}.scope"),
            "pod5f0e1d1c-1111-2222-3333-444455556666".to_owned(),
            "system.slice".to_owned(),
        ] {
            assert_eq!(container_id(&name), None, "{name}");
        }
        assert_eq!(container_of(&format!("4:memory:/\n0::/../{BUILD}/x\n")).as_deref(), Some(BUILD));
        assert_eq!(container_of("0::/user.slice\n"), None);
    }

    #[test]
    fn processes_that_v1_does_not_show_are_counted() {
        let fake = FakeKernel::hybrid("/build", "/build");
        let layout = Layout::at(&fake.kernel().path("/sys/fs/cgroup")).unwrap();
        let group = layout.groups_at(Path::new("build")).unwrap().unwrap().memory;
        fake.write("/sys/fs/cgroup/memory/build/cgroup.procs", "");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Empty);
        fake.write("/sys/fs/cgroup/pids/build/pids.current", "3\n");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Busy);
        fake.write("/sys/fs/cgroup/pids/build/pids.current", "0\n");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Empty);
    }

    #[test]
    fn a_group_is_busy_then_empty_then_gone() {
        let fake = FakeKernel::v2("/build");
        let path = Path::new("build");
        let group = Layout::mounted(&fake.kernel()).unwrap().groups_at(path).unwrap().unwrap().memory;
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Busy, "without events the processes say it");
        fake.write("/sys/fs/cgroup/build/cgroup.procs", "");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Empty);
        fake.write("/sys/fs/cgroup/build/nested/cgroup.procs", "12\n");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Busy, "v1 does not say it for groups below");
        fake.write("/sys/fs/cgroup/build/cgroup.events", "populated 0\nfrozen 0\n");
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Empty);
        fs::remove_dir_all(&group.dir).unwrap();
        assert_eq!(occupancy(&group).unwrap(), Occupancy::Gone);
        assert_eq!(identity(&group), None);
    }
}
