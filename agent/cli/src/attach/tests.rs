//! Builds of others: on kernels made of text files, and real ones.

use std::{
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use plimsoll_measure::{
    cgroup::{Cgroups, find as own_groups},
    fake_kernel::FakeKernel,
};

use super::{found::AttachRefusal, process::Process, *};

mod job;
mod runner;

const POD: &str = "5f0e1d1c-1111-2222-3333-444455556666";
const BUILD: &str = "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0";
const OTHER: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const PAUSE: &str = "9999999999999999999999999999999999999999999999999999999999999999";
const OWN: &str = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const NOW: Duration = Duration::ZERO;

/// A process that started after so many clock ticks, in the cgroup `path`, in the container `name` of the pod.
fn process(fake: &FakeKernel, pid: i32, started: u64, path: &str, name: &str) {
    let zeros = "0 ".repeat(32);
    let stat =
        format!("{pid} (sh) S 1 {pid} {pid} 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 {started} 1000 10 1 {zeros}\n");
    fake.write(&format!("/proc/{pid}/stat"), &stat);
    fake.write(&format!("/proc/{pid}/status"), "Name:\tsh\n");
    fake.write(&format!("/proc/{pid}/cgroup"), &format!("0::{path}\n"));
    fake.write(&format!("/proc/{pid}/mountinfo"), &mounts(path, name));
}

fn mounts(root: &str, name: &str) -> String {
    format!(
        "1 2 0:3 {root} /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
         2 2 254:1 /kubelet/pods/{POD}/containers/{name}/2a1b /dev/termination-log rw - ext4 /dev/vda1 rw\n\
         3 2 254:1 /containerd/sandboxes/{PAUSE}/hostname /etc/hostname rw - ext4 /dev/vda1 rw\n"
    )
}

/// The first digits of an id, as people write it.
fn part(id: &str) -> String {
    id.chars().take(12).collect()
}

/// A v2 group with counters in `dir`.
fn group(fake: &FakeKernel, dir: &str, procs: &str) {
    for (file, text) in [
        ("cgroup.procs", procs),
        ("cgroup.type", "domain\n"),
        ("memory.current", "90000000\n"),
        ("memory.stat", "anon 5000\n"),
        ("memory.events", "max 0\noom 0\noom_kill 0\n"),
        ("cpu.stat", "usage_usec 7000\n"),
    ] {
        fake.write(&format!("{dir}/{file}"), text);
    }
}

/// The agent's sidecar in a pod with a shared process namespace, cgroup namespaces, and one build.
fn sidecar() -> FakeKernel {
    let fake = FakeKernel::v2("/");
    let own = std::process::id();
    fake.write("/sys/fs/cgroup/cgroup.procs", &format!("{own}\n"));
    fake.write("/proc/self/mountinfo", &mounts("/", "plimsoll"));
    process(&fake, 30, 4000, &format!("/../{BUILD}"), "build");
    process(&fake, 20, 3000, &format!("/../{BUILD}"), "build");
    for pid in [20, 30] {
        group(&fake, &format!("/proc/{pid}/root/sys/fs/cgroup"), "20\n30\n");
    }
    fake
}

/// The host's cgroups with the same pod: the build, the agent, and the container that holds the pod together.
fn host(fake: &FakeKernel) -> String {
    let pod = format!("/host/kubepods.slice/kubepods-pod{}.slice", POD.replace('-', "_"));
    fake.write("/host/cgroup.procs", "");
    group(fake, &format!("{pod}/cri-containerd-{BUILD}.scope"), "0\n0\n");
    group(fake, &format!("{pod}/cri-containerd-{OWN}.scope"), &format!("{}\n", std::process::id()));
    group(fake, &format!("{pod}/cri-containerd-{PAUSE}.scope"), "0\n");
    pod
}

async fn look(fake: &FakeKernel, host: Option<&str>, target: &Target) -> Result<FoundBuild, AttachRefusal> {
    look_at(fake, host, target, || Duration::from_secs(100)).await
}

/// Like [`look`], with the machine's time since its start.
async fn look_at(
    fake: &FakeKernel,
    host: Option<&str>,
    target: &Target,
    boot_clock: fn() -> Duration,
) -> Result<FoundBuild, AttachRefusal> {
    let site = HostView { boot_clock, ..HostView::new(&fake.kernel(), None, host.map(Path::new)) };
    find::wait_for(&site, target, NOW).await
}

#[tokio::test]
async fn a_sidecar_finds_its_build_by_name() {
    let fake = sidecar();
    for target in [Target::Named("build".to_owned()), Target::Container(part(BUILD)), Target::Process(20)] {
        let mut found = look(&fake, None, &target).await.unwrap();
        assert_eq!(found.main.as_ref().unwrap().pid, 20, "the oldest: {target:?}");
        let groups = found.groups.unwrap();
        assert!(groups.memory.dir.ends_with("proc/20/root/sys/fs/cgroup"), "{groups:?}");
        assert!(found.since_birth, "{target:?}");
        assert_eq!(found.meter.read().unwrap().cpu_usec, 7000);
        assert_eq!(found.failed_ways, ["its cgroup is not in the agent's own mounts"]);
        let (ticks, main) = (procfs::ticks_per_second(), found.main.unwrap());
        let age = main.age(Duration::from_secs(100));
        assert_eq!(age, Duration::from_millis(100_000 - 3_000_000 / ticks));
    }
    let later = look(&fake, None, &Target::Process(30)).await.unwrap();
    assert!(!later.since_birth, "the container did something before this process");
    fake.write("/proc/30/status", "RssAnon:\t90000 kB\n");
    let by_tree = look(&fake, None, &Target::Process(20)).await.unwrap();
    assert!(by_tree.failed_ways[1].ends_with("holds other processes"), "{:?}", by_tree.failed_ways);
    assert!(by_tree.groups.is_none());
    assert!(look(&fake, None, &Target::Named("build".to_owned())).await.unwrap().groups.is_some());
}

#[tokio::test]
async fn host_cgroups_then_processes_replace_an_inaccessible_root() {
    let fake = sidecar();
    std::fs::remove_dir_all(fake.kernel().path("/proc/20/root")).unwrap();
    symlink("root", fake.kernel().path("/proc/20/root")).unwrap();
    host(&fake);
    let target = Target::Named("build".to_owned());
    let found = look(&fake, Some("/host"), &target).await.unwrap();
    let dir = found.groups.unwrap_or_else(|| panic!("{:?}", found.failed_ways)).memory.dir;
    assert!(dir.ends_with(format!("cri-containerd-{BUILD}.scope")), "{dir:?}");
    assert!(found.failed_ways[1].contains("proc/20/root"), "{:?}", found.failed_ways);
    let early = || Duration::from_millis(31_500);
    let refusal = look_at(&fake, None, &target, early).await.unwrap_err();
    assert!(refusal.problem.contains("has just started"), "it may come into sight: {refusal:?}");
    let found = look(&fake, None, &target).await.unwrap();
    assert!(found.groups.is_none() && found.how_followed.contains("process tree"), "{}", found.how_followed);
}

#[tokio::test]
async fn a_pods_build_excludes_agent_and_sandbox() {
    for known in [true, false] {
        let fake = sidecar();
        let pod = host(&fake);
        if !known {
            // without the sandbox in the mount table, its size tells
            fake.write("/proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
            fake.write(&format!("{pod}/cri-containerd-{PAUSE}.scope/memory.current"), "300000\n");
        }
        let found =
            look(&fake, Some("/host"), &Target::Pod(POD.to_owned(), ContainerChoice::Only)).await.unwrap();
        assert!(found.groups.unwrap().memory.dir.ends_with(format!("cri-containerd-{BUILD}.scope")));
        assert!(found.since_birth && found.main.is_none());
    }
}

#[tokio::test]
async fn a_v1_pod_is_followed_without_visible_processes() {
    let fake = FakeKernel::hybrid("/own", "/own");
    let pod = format!("kubepods/burstable/pod{POD}");
    for (id, processes) in [(BUILD, "4\n"), (OTHER, "0\n")] {
        let memory = format!("/host/memory/{pod}/{id}");
        fake.write(&format!("{memory}/cgroup.procs"), "");
        fake.write(&format!("{memory}/memory.usage_in_bytes"), "70000000\n");
        fake.write(&format!("{memory}/memory.stat"), "total_rss 60000000\n");
        fake.write(&format!("/host/pids/{pod}/{id}/pids.current"), processes);
        fake.write(&format!("/host/cpu,cpuacct/{pod}/{id}/cgroup.procs"), "");
        fake.write(&format!("/host/cpu,cpuacct/{pod}/{id}/cpuacct.usage"), "9000000\n");
    }
    let mut found =
        look(&fake, Some("/host"), &Target::Pod(POD.to_owned(), ContainerChoice::Only)).await.unwrap();
    assert!(found.groups.unwrap().memory.dir.ends_with(BUILD), "the other one has ended");
    let reading = found.meter.read().unwrap();
    assert_eq!((reading.need, reading.cpu_usec), (60_000_000, 9000));
    let by_id = look(&fake, Some("/host"), &Target::Container(part(BUILD))).await.unwrap();
    assert!(by_id.groups.unwrap().memory.dir.ends_with(BUILD));
}

#[tokio::test]
async fn ambiguous_containers_are_listed_and_refused() {
    let fake = sidecar();
    let pod = host(&fake);
    group(&fake, &format!("{pod}/cri-containerd-{OTHER}.scope"), "0\n");
    let target = Target::Pod(POD.to_owned(), ContainerChoice::Only);
    let refusal = look(&fake, Some("/host"), &target).await.unwrap_err();
    assert_eq!(refusal.status, 2);
    assert!(refusal.problem.contains(BUILD) && refusal.problem.contains(OTHER), "{}", refusal.problem);
    let by_id = Target::Pod(POD.to_owned(), ContainerChoice::Id(part(OTHER)));
    assert!(look(&fake, Some("/host"), &by_id).await.is_ok());
    let by_name = Target::Pod(POD.to_owned(), ContainerChoice::Named("build".to_owned()));
    let found = look(&fake, Some("/host"), &by_name).await.unwrap();
    assert!(found.groups.unwrap().memory.dir.to_string_lossy().contains(BUILD));
}

#[tokio::test]
async fn without_kubernetes_a_name_means_the_only_sibling() {
    let fake = FakeKernel::v2("/");
    process(&fake, 20, 3000, &format!("/../{BUILD}"), "build");
    process(&fake, 1, 10, "/../pause", "x");
    for pid in [1, 20] {
        fake.write(&format!("/proc/{pid}/mountinfo"), "");
    }
    let name = Target::Named("anything".to_owned());
    assert_eq!(look(&fake, None, &name).await.unwrap().main.unwrap().pid, 20);
    process(&fake, 40, 3000, &format!("/../{OTHER}"), "build");
    fake.write("/proc/40/mountinfo", "");
    let refusal = look(&fake, None, &name).await.unwrap_err();
    assert!(refusal.status == 2 && refusal.problem.contains("2 containers"), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_target_exits_4_with_the_reason() {
    let fake = sidecar();
    for (target, missing) in [
        (Target::Named("tests".to_owned()), "no process of a container named 'tests'"),
        (Target::Container("deadbeef".to_owned()), "no container deadbeef"),
        (Target::Process(77), "there is no process 77"),
        (Target::Group("jobs/7 a".into()), "there is no cgroup jobs/7 a"),
        (Target::Pod("12".to_owned(), ContainerChoice::Only), "--host-cgroup"),
    ] {
        let site = HostView::new(&fake.kernel(), None, None);
        let refusal = find::wait_for(&site, &target, Duration::from_mins(5)).await.unwrap_err();
        assert_eq!(refusal.status, 4);
        assert!(refusal.problem.contains(missing), "{refusal:?}");
    }
}

#[test]
fn earlier_events_of_parent_limits_are_excluded() {
    let now = Reading {
        cpu_usec: 500,
        oom_kill: Some(1),
        reclaim_failures: Some(1007),
        failures_above: Some(1000),
        limit_hits: Some(2),
        limit_hits_above: Some(40),
        ..Reading::default()
    };
    let before = before_birth(&now);
    assert_eq!((before.cpu_usec, before.oom_kill, before.limit_hits), (0, None, None));
    assert_eq!((before.reclaim_failures, before.limit_hits_above), (Some(1000), Some(40)));
}

#[tokio::test]
async fn a_cgroup_containing_the_agent_is_refused() {
    let fake = sidecar();
    group(&fake, "/sys/fs/cgroup/jobs", "");
    group(&fake, "/sys/fs/cgroup/jobs/7", &format!("{}\n", std::process::id()));
    let refusal = look(&fake, None, &Target::Group("jobs".into())).await.unwrap_err();
    assert!(refusal.problem.contains("holds the agent"), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn earlier_activity_in_a_cgroup_is_not_counted() {
    let fake = sidecar();
    group(&fake, "/sys/fs/cgroup/jobs", "");
    let site = HostView::new(&fake.kernel(), None, None);
    let target = Target::Group("jobs".into());
    let begin = async {
        // after the first look, which the paused clock lets come first
        tokio::time::sleep(Duration::from_millis(1)).await;
        fake.write("/sys/fs/cgroup/jobs/cpu.stat", "usage_usec 9000\n");
        fake.write("/sys/fs/cgroup/jobs/cgroup.procs", "20\n");
    };
    let (found, ()) = tokio::join!(find::wait_for(&site, &target, Duration::from_mins(1)), begin);
    let found = found.unwrap();
    let earlier = found.earlier.unwrap().reading.cpu_usec;
    assert_eq!(earlier, 7000, "what the build used before it was found is its own");
    assert_eq!(found.main.unwrap().pid, 20);
}

#[tokio::test(start_paused = true)]
async fn reused_pids_and_removed_cgroups_end_the_build() {
    let fake = sidecar();
    let site = HostView::new(&fake.kernel(), None, None);
    let main = Process::read(&site.proc, 20);
    let mut watch = EndWatch::new(&site, main, None, None);
    assert!(tokio::time::timeout(Duration::from_secs(9), watch.ended()).await.is_err());
    process(&fake, 20, 3001, "/x", "build");
    assert_eq!(end(&mut watch).await, "its process ended");

    let watch = || {
        group(&fake, "/sys/fs/cgroup/jobs", "20\n");
        let groups: Cgroups = foreign_group(&fake, "jobs");
        EndWatch::new(&site, None, Some(groups), None)
    };
    let dir = fake.kernel().path("/sys/fs/cgroup/jobs");
    let mut emptied = watch();
    fake.write("/sys/fs/cgroup/jobs/cgroup.events", "populated 0\n");
    assert_eq!(end(&mut emptied).await, "its cgroup is empty");
    fake.remove("/sys/fs/cgroup/jobs/cgroup.events");
    let mut vanished = watch();
    // kept aside, so that the new folder cannot get its number
    std::fs::rename(&dir, fake.kernel().path("/aside")).unwrap();
    assert_eq!(end(&mut vanished).await, "its cgroup was removed");
    let mut again = watch();
    std::fs::rename(&dir, fake.kernel().path("/aside too")).unwrap();
    group(&fake, "/sys/fs/cgroup/jobs", "20\n");
    assert_eq!(end(&mut again).await, "its cgroup was removed");
}

/// The end, or what it says when the paused clock has run for a minute.
async fn end(watch: &mut EndWatch) -> &'static str {
    tokio::time::timeout(Duration::from_mins(1), watch.ended())
        .await
        .map_or("it never ended", |end| end.seen_how)
}

fn foreign_group(fake: &FakeKernel, path: &str) -> Cgroups {
    let layout = plimsoll_measure::cgroup::foreign::CgroupMounts::mounted(&fake.kernel()).unwrap();
    layout.groups_at(Path::new(path)).unwrap().unwrap()
}

/// A real process in a real group of its own.
struct Real {
    dir: PathBuf,
    child: Child,
}

impl Real {
    /// `None` where no group can be made; then the test proves nothing.
    fn start() -> Option<Self> {
        let own = own_groups(&Kernel::running(), "self").ok().flatten();
        let dir = own?.memory.dir.join(format!("attach-test {}", Ulid::new()));
        if let Err(error) = std::fs::create_dir(&dir) {
            println!("skipped: no cgroup can be made here: {error}");
            return None;
        }
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        std::fs::write(dir.join("cgroup.procs"), child.id().to_string()).unwrap();
        Some(Self { dir, child })
    }

    fn end(&mut self) {
        self.child.stdin.take().unwrap().flush().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
        drop(std::fs::remove_dir(&self.dir));
    }
}

#[tokio::test]
async fn a_real_build_is_followed_to_its_end() {
    let site = HostView::new(&Kernel::running(), None, None);
    for by_group in [false, true] {
        let Some(mut real) = Real::start() else { return };
        let pid = i32::try_from(real.child.id()).unwrap();
        let target = if by_group { Target::Group(real.dir.clone()) } else { Target::Process(pid) };
        let mut found = find::wait_for(&site, &target, NOW).await.unwrap();
        if found.groups.is_none() {
            println!("skipped: groups made here account no memory: {:?}", found.failed_ways);
            return;
        }
        assert_eq!(found.groups.as_ref().unwrap().memory.dir, real.dir);
        assert!(found.since_birth && found.meter.read().is_some());
        assert_eq!(found.main.as_ref().unwrap().pid, pid);
        let main = found.main.filter(|_main| !by_group);
        let mut watch = EndWatch::new(&site, main, found.groups, None);
        tokio::select! {
            biased;
            end = watch.ended() => panic!("{end:?}"),
            () = tokio::task::yield_now() => {}
        }
        real.end();
        let end = watch.ended().await;
        assert_eq!(end.seen_how, if by_group { "its cgroup is empty" } else { "its process ended" });
    }
}

#[tokio::test]
async fn shared_cgroup_processes_are_followed_by_process_tree() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let site = HostView::new(&Kernel::running(), None, None);
    let target = Target::Process(i32::try_from(child.id()).unwrap());
    let mut found = find::wait_for(&site, &target, NOW).await.unwrap();
    assert!(found.groups.is_none(), "{}", found.how_followed);
    assert!(found.meter.read().unwrap().need > 0);
    drop(child.stdin.take());
    // ended, and not waited for yet
    EndWatch::new(&site, found.main, None, None).ended().await;
    child.wait().unwrap();
}
