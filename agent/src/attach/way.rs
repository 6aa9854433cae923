//! Chooses how a build that was found is measured: through its cgroup if that can be reached and is its own, else through its
//! processes. Each way that does not work leaves its reason.

use plimsoll_proto::v1::Source;

use super::{find::Found, process::Process, site::Site};
use crate::{
    cgroup::{
        Group, Groups,
        foreign::{Layout, members},
        pod::find_containers,
    },
    kernel::Error,
    meter::Meter,
    proctree::Tree,
};

/// One place in which the group of a process may be seen.
struct Place {
    found: Result<Option<Groups>, Error>,
    whence: String,
}

/// The best way to follow a process; of all its container if that is given. `Err` says why there is none.
pub(super) fn to_process(site: &Site, main: Process, container: Option<&str>) -> Result<Found, String> {
    let memberships = main.memberships(&site.proc);
    let mut worse = Vec::new();
    for place in places(site, &main, &memberships, container) {
        let groups = match place.found {
            Ok(Some(groups)) => groups,
            Ok(None) => {
                worse.push(format!("its cgroup is not {}", place.whence));
                continue;
            }
            Err(error) => {
                worse.push(format!("its cgroup is not to be had {}: {error}", place.whence));
                continue;
            }
        };
        match measured(site, &groups, Some(&main)) {
            Ok(meter) => {
                let since_birth = container.is_some() || begins_with(site, &groups, &main);
                let way = format!("{} through its cgroup {}", describe(&main, container), shown(&groups));
                return Ok(Found {
                    meter,
                    groups: Some(groups),
                    main: Some(main),
                    since_birth,
                    earlier: None,
                    way,
                    worse,
                });
            }
            Err(why) => worse.push(why),
        }
    }
    let tree = Tree::with_top(site.proc.clone(), main.pid).map_err(|error| error.to_string())?;
    match Meter::follow(&site.kernel, None, Some(tree)) {
        Ok(Some(meter)) => {
            let way =
                format!("{} through its process tree, which shows no OOM kill", describe(&main, container));
            Ok(Found { meter, groups: None, main: Some(main), since_birth: true, earlier: None, way, worse })
        }
        Ok(None) => Err("there is no process tree".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The best way to follow a group that was found by itself.
pub(super) fn to_group(site: &Site, groups: Groups, mut worse: Vec<String>) -> Result<Found, String> {
    let main = oldest(site, &groups);
    let meter = measured(site, &groups, main.as_ref())?;
    if main.is_none() && groups.cpu.as_ref().is_none_or(Group::is_root) {
        worse.push("nothing counts its CPU time here".to_owned());
    }
    let way = format!("the cgroup {}", shown(&groups));
    Ok(Found { meter, groups: Some(groups), main, since_birth: true, earlier: None, way, worse })
}

/// Opens the groups, if they measure the build and nothing else.
fn measured(site: &Site, groups: &Groups, main: Option<&Process>) -> Result<Meter, String> {
    let folder = shown(groups);
    if groups.memory.is_root() {
        return Err(format!("{folder} is the whole machine"));
    }
    if Site::is_in(&groups.memory) {
        return Err(format!("{folder} holds the agent as well"));
    }
    let tree = main.and_then(|main| Tree::with_top(site.proc.clone(), main.pid).ok());
    let meter = Meter::follow(&site.kernel, Some(groups), tree).map_err(|error| error.to_string())?;
    // without accounting there, only the tree measures something
    let accounted = meter.filter(|meter| meter.source() != Source::ProcessTree);
    accounted.ok_or_else(|| format!("{folder} accounts no memory"))
}

fn places(site: &Site, main: &Process, memberships: &str, container: Option<&str>) -> Vec<Place> {
    let own = Layout::mounted(&site.kernel).and_then(|layout| layout.groups_of(memberships, container));
    let root = site.proc.join(main.pid.to_string()).join("root");
    let theirs = Layout::of_process(&site.proc, main.pid);
    let theirs = theirs.and_then(|layout| layout.groups_of(memberships, container));
    let mut places = vec![
        Place { found: own, whence: "in the agent's own mounts".to_owned() },
        Place { found: theirs, whence: format!("below {}", root.display()) },
    ];
    if let Some(folder) = &site.host_cgroup {
        let whence = format!("below {}", folder.display());
        let found = Layout::at(folder).and_then(|layout| match container {
            Some(id) => container_groups(&layout, id),
            None => layout.groups_of(memberships, None),
        });
        places.push(Place { found, whence });
    }
    places
}

/// The groups of the one container with this id.
pub(super) fn container_groups(layout: &Layout, id: &str) -> Result<Option<Groups>, Error> {
    for mount in layout.memory_mounts() {
        let found = find_containers(mount, id);
        if let Some(container) = found.first() {
            return layout.groups_at(&container.dir);
        }
    }
    Ok(None)
}

/// Says whether a process is the first of its group: then the group's counters are those of the build. What cannot be seen may
/// be older.
fn begins_with(site: &Site, groups: &Groups, main: &Process) -> bool {
    let pids = members(&groups.memory.dir);
    let visible = site.shows_own_namespace() && !pids.contains(&0);
    visible && oldest(site, groups).is_some_and(|oldest| oldest.pid == main.pid)
}

/// The first of the processes in a group that can be seen.
pub(super) fn oldest(site: &Site, groups: &Groups) -> Option<Process> {
    if !site.shows_own_namespace() {
        return None;
    }
    let pids = members(&groups.memory.dir).into_iter().filter(|&pid| pid > 0);
    let seen = pids.filter_map(|pid| Process::read(&site.proc, pid));
    seen.min_by_key(|process| (process.started, process.pid))
}

fn describe(main: &Process, container: Option<&str>) -> String {
    let short = |id: &str| id.get(..12).unwrap_or(id).to_owned();
    match container {
        Some(id) => format!("container {} (process {}, {})", short(id), main.pid, main.name),
        None => format!("process {} ({})", main.pid, main.name),
    }
}

fn shown(groups: &Groups) -> String {
    groups.memory.dir.display().to_string()
}
