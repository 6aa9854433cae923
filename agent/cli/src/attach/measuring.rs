//! Chooses how to measure a build that was found: through its cgroup if the agent can read it and it contains
//! only the build, else through its processes. For each way that does not work the reason is kept.

use std::{iter::successors, path::Path, time::Duration};

use plimsoll_measure::{
    cgroup::{
        Cgroup, Cgroups,
        folder::members,
        foreign::{CgroupMounts, Occupancy, identity, occupancy},
        pod::find_containers,
    },
    kernel::Error,
    meter::Meter,
    proctree::{OTHER_PROCESSES_BYTES, ProcessTree, resident_of_others},
};
use plimsoll_proto::{measured::PartlyMeasured, v1::Source};

use super::{
    found::{AttachRefusal, EarlierCounters, FoundBuild, MissingBuild, SearchResult},
    host_view::HostView,
    process::Process,
};

/// A place where the cgroup of a process may be visible.
struct CgroupView {
    groups: Result<Option<Cgroups>, Error>,
    mount_words: String,
}

/// Most ancestors of a runner that are looked at.
const MOST_ANCESTORS: usize = 64;
/// Time in which a container is set up. During that time its cgroup may not be visible yet.
const SETUP_TIME: Duration = Duration::from_secs(2);

/// The part of a cgroup that is the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowedPart<'a> {
    /// A process and its descendants; other processes of its cgroup are not of the build.
    Process,
    /// The whole container of a process, with its id if that is known.
    Container(Option<&'a str>),
}

impl<'a> FollowedPart<'a> {
    fn container(self) -> Option<&'a str> {
        if let Self::Container(id) = self { id } else { None }
    }
}

pub(super) fn by_process(site: &HostView, main: Process, part: FollowedPart<'_>) -> SearchResult {
    let container = part.container();
    let (pid, proc, age) = (main.pid, site.proc.clone(), main.age((site.boot_clock)()));
    match follow_process(site, main, part) {
        // while a container is set up, its first process still has the host's mounts, so search again
        Ok(found) if container.is_some() && found.groups.is_none() && age < SETUP_TIME => {
            Ok(Err(format!("process {pid} has just started: {}", found.failed_ways.join("; ")).into()))
        }
        Ok(found) => Ok(Ok(found)),
        // this process has ended, but the container may get another one: search again
        Err(_why) if container.is_some() && Process::read(&proc, pid).is_none() => {
            Ok(Err(format!("process {pid} ended at once").into()))
        }
        Err(why) => Err(AttachRefusal::nothing_to_measure(format!("process {pid}: {why}"))),
    }
}

/// Follows the group at this path, if a process runs in it.
pub(super) fn by_folder(
    site: &HostView,
    layout: &CgroupMounts,
    path: &Path,
    failed_ways: Vec<String>,
) -> SearchResult {
    let found =
        layout.groups_at(path).map_err(|error| AttachRefusal::nothing_to_measure(error.to_string()))?;
    let Some(groups) = found else { return Ok(Err(format!("there is no cgroup {}", path.display()).into())) };
    match occupancy(&groups.memory) {
        Ok(Occupancy::Busy) => {
            follow_group(site, groups, failed_ways).map(Ok).map_err(AttachRefusal::nothing_to_measure)
        }
        Ok(Occupancy::Empty | Occupancy::Gone) => {
            let why = format!("nothing runs in the cgroup {}", path.display());
            let meter = Meter::follow(&site.kernel, Some(&groups), None).ok().flatten();
            let reading = meter.and_then(|mut meter| meter.read());
            let group = identity(&groups.memory);
            Ok(Err(MissingBuild {
                why,
                empty_group: reading.map(|reading| EarlierCounters { reading, group }),
            }))
        }
        Err(error) => Err(AttachRefusal::nothing_to_measure(error.to_string())),
    }
}

/// The best way to follow a process, or its whole container if the id of that is given; the error is why there
/// is none.
fn follow_process(site: &HostView, main: Process, part: FollowedPart<'_>) -> Result<FoundBuild, String> {
    let container = part.container();
    let memberships = main.memberships(&site.proc);
    let mut worse = Vec::new();
    for view in mount_views(site, &main, &memberships, container) {
        let groups = match view.groups {
            Ok(Some(groups)) => groups,
            Ok(None) => {
                worse.push(format!("its cgroup is not {}", view.mount_words));
                continue;
            }
            Err(error) => {
                worse.push(format!("its cgroup is not to be had {}: {error}", view.mount_words));
                continue;
            }
        };
        let opened = open_meter(site, &groups, Some(&main)).and_then(|meter| match part {
            FollowedPart::Process => without_others(site, &groups, &main, meter),
            FollowedPart::Container(_) => Ok(meter),
        });
        match opened {
            Ok(meter) => {
                let is_first = container.is_some() || is_first_of_group(site, &groups, &main);
                let since_birth = is_first && !site.is_of_runner;
                let way =
                    format!("{} through its cgroup {}", build_words(&main, container), group_words(&groups));
                return Ok(FoundBuild {
                    meter,
                    groups: Some(groups),
                    main: Some(main),
                    since_birth,
                    earlier: None,
                    how_followed: way,
                    failed_ways: worse,
                });
            }
            Err(why) => worse.push(why),
        }
    }
    let tree = ProcessTree::with_root(site.proc.clone(), main.pid).map_err(|error| error.to_string())?;
    match Meter::follow(&site.kernel, None, Some(tree)) {
        Ok(Some(meter)) => {
            let way = format!(
                "{} through its process tree, which shows no OOM kill",
                build_words(&main, container)
            );
            Ok(FoundBuild {
                meter,
                groups: None,
                main: Some(main),
                since_birth: !site.is_of_runner,
                earlier: None,
                how_followed: way,
                failed_ways: worse,
            })
        }
        Ok(None) => Err("there is no process tree".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The best way to follow a group that was found by its path.
fn follow_group(site: &HostView, groups: Cgroups, mut worse: Vec<String>) -> Result<FoundBuild, String> {
    let main = oldest(site, &groups);
    let meter = open_meter(site, &groups, main.as_ref())?;
    if main.is_none() && groups.cpu.as_ref().is_none_or(Cgroup::is_root) {
        worse.push("nothing counts its CPU time here".to_owned());
    }
    let way = format!("the cgroup {}", group_words(&groups));
    Ok(FoundBuild {
        meter,
        groups: Some(groups),
        main,
        since_birth: true,
        earlier: None,
        how_followed: way,
        failed_ways: worse,
    })
}

/// Creates a meter for the groups, if they contain only the build.
fn open_meter(site: &HostView, groups: &Cgroups, main: Option<&Process>) -> Result<Meter, String> {
    let folder = group_words(groups);
    if groups.memory.is_root() {
        return Err(format!("{folder} is the whole machine"));
    }
    if HostView::is_in(&groups.memory) && !site.is_of_runner {
        measures_build_alone(site, &groups.memory).map_err(|why| format!("{folder} holds {why}"))?;
    }
    let tree = main.and_then(|main| ProcessTree::with_root(site.proc.clone(), main.pid).ok());
    let meter = Meter::follow(&site.kernel, Some(groups), tree).map_err(|error| error.to_string())?;
    // a meter that has only the process tree means that the group does not count memory
    let accounted = meter.filter(|meter| meter.source() != Source::ProcessTree);
    let meter = accounted.ok_or_else(|| format!("{folder} accounts no memory"))?;
    if site.is_of_runner && meter.limits().memory.is_none() {
        return Err(format!("{folder} has no memory limit, and what runs besides the job may be in it"));
    }
    Ok(meter)
}

/// The meter, which also watches the group of the process `main` for processes that do not descend from it. The error is that the
/// group has some already.
fn without_others(
    site: &HostView,
    groups: &Cgroups,
    main: &Process,
    mut meter: Meter,
) -> Result<Meter, String> {
    if !site.shows_own_namespace() {
        return Ok(meter);
    }
    let top = if site.is_of_runner { topmost(site, groups, main) } else { main.pid };
    let Ok(tree) = ProcessTree::with_root(site.proc.clone(), top) else { return Ok(meter) };
    meter.watch_for_others(groups, tree);
    let has_others = meter.read().is_some()
        && meter.unmeasured().is_some_and(|(what, _text)| what == PartlyMeasured::SharedCgroup);
    if has_others { Err(format!("{} holds other processes", group_words(groups))) } else { Ok(meter) }
}

/// The process of the group from which `main` descends: what keeps a runner running.
fn topmost(site: &HostView, groups: &Cgroups, main: &Process) -> i32 {
    let members = members(&groups.memory.dir);
    let parent = |process: &Process| Process::read(&site.proc, process.parent);
    let in_group = |process: &Process| process.pid > 0 && members.contains(&process.pid);
    let chain = successors(Some(main.clone()), |process| parent(process).filter(in_group));
    chain.take(MOST_ANCESTORS).last().map_or(main.pid, |process| process.pid)
}

/// Whether the agent's own group may be measured: the caller allows it, and the build has only just begun
/// there. The agent's own few MiB do not matter.
fn measures_build_alone(site: &HostView, group: &Cgroup) -> Result<(), &'static str> {
    if !site.accepts_own_group {
        return Err("the agent as well (--own-cgroup takes it)");
    }
    let others = resident_of_others(&site.kernel, &group.dir.join("cgroup.procs"));
    let alone = others.is_some_and(|bytes| bytes <= OTHER_PROCESSES_BYTES);
    alone.then_some(()).ok_or("more than the agent and a job that begins")
}

fn mount_views(
    site: &HostView,
    main: &Process,
    memberships: &str,
    container: Option<&str>,
) -> Vec<CgroupView> {
    let own = CgroupMounts::mounted(&site.kernel).and_then(|layout| layout.groups_of(memberships, container));
    let root = site.proc.join(main.pid.to_string()).join("root");
    let theirs = CgroupMounts::of_process(&site.proc, main.pid);
    let theirs = theirs.and_then(|layout| layout.groups_of(memberships, container));
    let mut views = vec![
        CgroupView { groups: own, mount_words: "in the agent's own mounts".to_owned() },
        CgroupView { groups: theirs, mount_words: format!("below {}", root.display()) },
    ];
    if let Some(folder) = &site.host_cgroup {
        let whence = format!("below {}", folder.display());
        let found = CgroupMounts::at(folder).and_then(|layout| match container {
            Some(id) => container_groups(&layout, id),
            None => layout.groups_of(memberships, None),
        });
        views.push(CgroupView { groups: found, mount_words: whence });
    }
    views
}

pub(super) fn container_groups(layout: &CgroupMounts, id: &str) -> Result<Option<Cgroups>, Error> {
    for mount in layout.memory_mounts() {
        let found = find_containers(mount, id);
        if let Some(container) = found.first() {
            return layout.groups_at(&container.dir);
        }
    }
    Ok(None)
}

/// Whether a process was the first in its group, so that the group's counters are those of the build. If a
/// process of the group is invisible, the answer is no: it may be older.
fn is_first_of_group(site: &HostView, groups: &Cgroups, main: &Process) -> bool {
    let pids = members(&groups.memory.dir);
    let visible = site.shows_own_namespace() && !pids.contains(&0);
    visible && oldest(site, groups).is_some_and(|oldest| oldest.pid == main.pid)
}

/// The oldest process of a group that the agent can see.
pub(super) fn oldest(site: &HostView, groups: &Cgroups) -> Option<Process> {
    if !site.shows_own_namespace() {
        return None;
    }
    let pids = members(&groups.memory.dir).into_iter().filter(|&pid| pid > 0);
    let seen = pids.filter_map(|pid| Process::read(&site.proc, pid));
    seen.min_by_key(|process| (process.started, process.pid))
}

fn build_words(main: &Process, container: Option<&str>) -> String {
    let short = |id: &str| id.get(..12).unwrap_or(id).to_owned();
    match container {
        Some(id) => format!("container {} (process {}, {})", short(id), main.pid, main.name),
        None => format!("process {} ({})", main.pid, main.name),
    }
}

fn group_words(groups: &Cgroups) -> String {
    groups.memory.dir.display().to_string()
}
