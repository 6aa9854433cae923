//! Groups of others, on kernels of text files.

use super::*;
use crate::fake_kernel::FakeKernel;

const BUILD: &str = "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0";

#[test]
fn a_neighbour_container_is_read_through_proc_root() {
    // both have cgroup namespaces: the agent sees its neighbour as `/../ID`
    let fake = FakeKernel::v2("/");
    let memberships = format!("0::/../{BUILD}\n");
    let own = CgroupMounts::mounted(&fake.kernel()).unwrap();
    // where `..` would lead
    fake.write(&format!("/sys/fs/{BUILD}/cgroup.procs"), "1\n");
    assert!(own.groups_of(&memberships, None).unwrap().is_none());
    assert!(own.groups_of(&format!("0::/../{BUILD}/../x\n"), Some(BUILD)).unwrap().is_none());
    fake.write("/proc/7/mountinfo", &format!("1 2 0:3 /../{BUILD} /sys/fs/cgroup ro - cgroup2 cgroup rw\n"));
    fake.write("/proc/7/root/sys/fs/cgroup/cgroup.procs", "7\n");
    let proc = fake.kernel().path("/proc");
    let groups = CgroupMounts::of_process(&proc, 7).unwrap().groups_of(&memberships, None).unwrap().unwrap();
    assert_eq!(groups.memory.dir, proc.join("7/root/sys/fs/cgroup"));
    // a group that the build made below its own is not the whole build
    let nested = format!("{}/init.scope\n", memberships.trim());
    fake.write("/proc/7/root/sys/fs/cgroup/init.scope/cgroup.procs", "7\n");
    let layout = CgroupMounts::of_process(&proc, 7).unwrap();
    assert_eq!(layout.groups_of(&nested, Some(BUILD)).unwrap().unwrap(), groups);
    assert!(layout.groups_of(&nested, None).unwrap().unwrap().memory.dir.ends_with("init.scope"));
}

#[test]
fn an_inaccessible_root_is_an_error() {
    let fake = FakeKernel::new();
    fake.write("/proc/7/mountinfo", "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    // root may enter everything; a link to itself refuses even root
    std::os::unix::fs::symlink("root", fake.kernel().path("/proc/7/root")).unwrap();
    let layout = CgroupMounts::of_process(&fake.kernel().path("/proc"), 7).unwrap();
    assert!(layout.groups_of("0::/\n", None).unwrap_err().to_string().contains("7/root/sys"));
}

#[test]
fn each_v1_hierarchy_has_its_folder_on_hosts() {
    let fake = FakeKernel::hybrid("/docker/a b", "/docker/a b");
    let host = fake.kernel().path("/sys/fs/cgroup");
    let layout = CgroupMounts::at(&host).unwrap();
    let groups = layout.groups_at(Path::new("docker/a b")).unwrap().unwrap();
    assert_eq!(groups.memory.version, CgroupVersion::V1);
    assert_eq!(groups.cpu.unwrap().dir, host.join("cpuacct/docker/a b"));
    let by_folder = layout.groups_at(&host.join("memory/docker/a b")).unwrap().unwrap();
    assert_eq!(by_folder.memory, groups.memory);
    assert!(layout.groups_at(Path::new("docker/../docker/a b")).unwrap().is_none());
    fake.write("/sys/fs/cgroup/unified/docker/other/cgroup.procs", "1\n");
    assert!(layout.groups_at(Path::new("docker/other")).unwrap().is_none(), "it charges no memory");
}

#[test]
fn container_ids_are_found_for_all_runtimes() {
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
    let layout = CgroupMounts::at(&fake.kernel().path("/sys/fs/cgroup")).unwrap();
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
    let group = CgroupMounts::mounted(&fake.kernel()).unwrap().groups_at(path).unwrap().unwrap().memory;
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
