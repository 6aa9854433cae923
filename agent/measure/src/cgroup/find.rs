//! Finds the cgroup folders of a process. `/proc/PID/cgroup` has the group of the process in each hierarchy, and the mount table has the
//! folder where that hierarchy can be read.
//!
//! In a container the two may disagree: without a cgroup namespace, `/proc/PID/cgroup` has the path on the host, while only the container's
//! part is mounted.

use std::path::{Component, Path, PathBuf};

use super::parse::{Membership, Mount, parse_memberships, parse_mounts};
use crate::kernel::{self, Error, Kernel};

/// Version of the kernel's interface for cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Version 1: one hierarchy for each controller, even if an empty v2 hierarchy is mounted too.
    V1,
    /// Version 2: one hierarchy for all controllers.
    V2,
}

/// One cgroup in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// The folder where the hierarchy is mounted; groups above it cannot be read.
    pub mount: PathBuf,
    /// The group's folder: `mount` or a folder below it.
    pub dir: PathBuf,
    /// Version of the interface of the group's files.
    pub version: CgroupVersion,
}

impl Cgroup {
    /// The folders of the group and of those above it that can be read, nearest first.
    pub fn and_ancestors(&self) -> impl Iterator<Item = &Path> {
        self.dir.ancestors().take_while(|dir| dir.starts_with(&self.mount))
    }

    /// Whether this is the root of the hierarchy, which has the counters of the whole machine. The topmost visible group of a cgroup
    /// namespace is not the root: only the true root has v1 `release_agent`, and only the root lacks v2 `cgroup.type`.
    pub fn is_root(&self) -> bool {
        match self.version {
            CgroupVersion::V1 => self.dir.join("release_agent").try_exists().unwrap_or(false),
            CgroupVersion::V2 => !self.dir.join("cgroup.type").try_exists().unwrap_or(false),
        }
    }
}

/// The cgroups of one process, by what they count or limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    /// The group that charges memory.
    pub memory: Cgroup,
    /// The group that counts CPU time: v1 `cpuacct`, or v2.
    pub cpu: Option<Cgroup>,
    /// The group that limits CPU time: v1 `cpu`, or v2.
    pub quota: Option<Cgroup>,
    /// The group that counts huge pages: v1 `hugetlb`, or v2 if it has that controller.
    pub huge_pages: Option<Cgroup>,
}

impl Cgroups {
    /// One v2 group for all.
    pub(super) fn unified(group: Cgroup) -> Self {
        let all = Some(group.clone());
        Self { cpu: all.clone(), quota: all.clone(), huge_pages: all, memory: group }
    }
}

/// Finds the cgroups of process `pid` (a number, or `self`); `None` if its memory group cannot be read here.
pub fn find(kernel: &Kernel, pid: &str) -> Result<Option<Cgroups>, Error> {
    let Some(memberships) = kernel::read(&kernel.path(format!("/proc/{pid}/cgroup")))? else {
        return Ok(None);
    };
    let Some(mounts) = kernel::read(&kernel.path("/proc/self/mountinfo"))? else { return Ok(None) };
    let (memberships, mounts) = (parse_memberships(&memberships), parse_mounts(&mounts));
    let group = |controller| locate(kernel, &memberships, &mounts, controller);
    let unified = group(None);
    if let Some(memory) = group(Some("memory")) {
        let cpu = group(Some("cpuacct")).or_else(|| unified.clone());
        let quota = group(Some("cpu")).or_else(|| unified.clone());
        let huge_pages = group(Some("hugetlb")).or(unified);
        return Ok(Some(Cgroups { memory, cpu, quota, huge_pages }));
    }
    Ok(unified.map(Cgroups::unified))
}

/// Finds the group of one v1 controller, or of v2 if `controller` is `None`.
fn locate(
    kernel: &Kernel,
    memberships: &[Membership],
    mounts: &[Mount],
    controller: Option<&str>,
) -> Option<Cgroup> {
    let is_it = |names: &[String]| {
        controller.map_or(names.is_empty(), |controller| names.iter().any(|name| name == controller))
    };
    let path = &memberships.iter().find(|membership| is_it(&membership.controllers))?.path;
    // the process is outside our cgroup namespace, so its folder is not below any mount that we can see
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let version = if controller.is_some() { CgroupVersion::V1 } else { CgroupVersion::V2 };
    let fits = |mount: &&Mount| match (&mount.controllers, controller) {
        (Some(names), Some(_controller)) => is_it(names),
        (None, None) => true,
        _other => false,
    };
    mounts.iter().filter(fits).find_map(|mount| {
        let point = kernel.path(&mount.point);
        let candidates = [
            path.strip_prefix(&mount.root).ok().map(|below| join_path(&point, below)),
            // the mount table is of another namespace than ours: the path is relative to the mount
            path.strip_prefix("/").ok().map(|below| join_path(&point, below)),
            // the path is the host's, and only the container's own group is mounted
            Some(point.clone()),
        ];
        let dir = candidates.into_iter().flatten().find(|dir| dir.join("cgroup.procs").is_file())?;
        Some(Cgroup { mount: point, dir, version })
    })
}

/// Joins two paths; unlike `Path::join`, an empty second path does not add a slash at the end.
fn join_path(point: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { point.to_owned() } else { point.join(below) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn v2_is_one_group_for_everything() {
        let fake = FakeKernel::v2("/user.slice/build 1.scope");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert_eq!(groups.memory.version, CgroupVersion::V2);
        assert!(groups.memory.dir.ends_with("sys/fs/cgroup/user.slice/build 1.scope"));
        assert_eq!(groups.cpu.as_ref(), Some(&groups.memory));
        assert_eq!(groups.memory.and_ancestors().count(), 3);
    }

    #[test]
    fn v1_hierarchies_are_found_beside_an_empty_v2() {
        let fake = FakeKernel::hybrid("/process_api/55", "/");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert_eq!(groups.memory.version, CgroupVersion::V1);
        assert!(groups.memory.dir.ends_with("memory/process_api/55"));
        let cpu = groups.cpu.unwrap();
        assert!(cpu.dir.ends_with("sys/fs/cgroup/cpuacct"), "{cpu:?}");
        assert_eq!(cpu.and_ancestors().count(), 1);
    }

    #[test]
    fn a_container_without_cgroup_namespace_finds_its_group() {
        let fake = FakeKernel::new();
        let pod = "/kubepods/burstable/pod12/ab34";
        fake.write("/proc/self/cgroup", &format!("0::{pod}\n"));
        fake.write("/proc/self/mountinfo", &format!("1 2 0:3 {pod} /sys/fs/cgroup ro - cgroup2 cgroup rw\n"));
        fake.write("/sys/fs/cgroup/cgroup.procs", "1\n");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert!(groups.memory.dir.ends_with("sys/fs/cgroup"));
        // the mount table of another namespace: no prefix fits, the mount is the group
        fake.write("/proc/self/mountinfo", "1 2 0:3 /.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert!(groups.memory.dir.ends_with("sys/fs/cgroup"));
    }

    #[test]
    fn no_cgroups_is_an_answer_and_no_error() {
        let fake = FakeKernel::new();
        assert!(find(&fake.kernel(), "self").unwrap().is_none());
        fake.write("/proc/self/cgroup", "0::/../outside\n4:memory:/gone\n");
        fake.write("/proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        assert!(find(&fake.kernel(), "self").unwrap().is_none());
    }
}
