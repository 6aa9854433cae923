//! Finds a container among the visible processes, by its id or by its name.

use plimsoll_measure::cgroup::pod::{self, Container};

use super::{
    found::{AttachRefusal, SearchResult},
    host_view::HostView,
    kubernetes::ContainerName,
    measuring::{FollowedPart, by_folder, by_process},
    process::Process,
};

pub(super) fn by_id(site: &HostView, id: &str) -> SearchResult {
    let mut found: Vec<(String, Process)> = Process::all_running(&site.proc)
        .into_iter()
        .filter_map(|process| Some((process.container(&site.proc)?, process)))
        .filter(|(container, _process)| container.starts_with(id))
        .collect();
    if let Some((container, main)) = single(&mut found, id)? {
        return by_process(site, main, FollowedPart::Container(Some(&container)));
    }
    let layout =
        site.searched_mounts().map_err(|error| AttachRefusal::nothing_to_measure(error.to_string()))?;
    let mut containers: Vec<Container> =
        layout.memory_mounts().flat_map(|mount| pod::find_containers(mount, id)).collect();
    containers.sort_by(|one, other| one.id.cmp(&other.id));
    containers.dedup_by(|one, other| one.id == other.id);
    if containers.len() > 1 {
        return Err(ambiguous_name(id, containers.iter().map(|container| container.id.as_str())));
    }
    let missing = || format!("no container {id} was seen, in {} or in cgroups", site.proc.display());
    let Some(container) = containers.pop() else { return Ok(Err(missing().into())) };
    by_folder(site, &layout, &container.dir, Vec::new())
}

pub(super) fn by_name(site: &HostView, name: &str) -> SearchResult {
    let others = processes_of_others(site);
    let named: Vec<(Process, ContainerName)> = others
        .iter()
        .filter_map(|process| Some((process.clone(), process.kubernetes(&site.proc)?)))
        .collect();
    let own_pod = |pod: &str| site.own_container.as_ref().is_none_or(|own| own.pod_uid == pod);
    let mut found: Vec<(String, Process)> = named
        .iter()
        .filter(|(_process, found)| found.container == name && own_pod(&found.pod_uid))
        .map(|(process, _name)| (key(site, process), process.clone()))
        .collect();
    if let Some((key, main)) = single(&mut found, name)? {
        let container = main.container(&site.proc).filter(|id| *id == key);
        return by_process(site, main, FollowedPart::Container(container.as_deref()));
    }
    if site.own_container.is_some() || !named.is_empty() {
        let why = if named.is_empty() { "; does the pod set shareProcessNamespace?" } else { "" };
        return Ok(Err(format!("no process of a container named '{name}' was seen{why}").into()));
    }
    // no process shows a container name, because this runtime does not set it: take the only other container
    let mut found: Vec<(String, Process)> =
        others.iter().map(|process| (key(site, process), process.clone())).collect();
    match single(&mut found, name)? {
        Some((key, main)) => {
            let container = main.container(&site.proc).filter(|id| *id == key);
            by_process(site, main, FollowedPart::Container(container.as_deref()))
        }
        None => Ok(Err("no process of another container was seen".to_owned().into())),
    }
}

/// The processes of other containers, without pause containers.
fn processes_of_others(site: &HostView) -> Vec<Process> {
    const KERNEL_THREADS: i32 = 2;
    let is_one = |process: &Process| {
        let of_kernel = process.pid == KERNEL_THREADS || process.parent == KERNEL_THREADS;
        !of_kernel && process.pid != 1 && process.name != "pause"
    };
    let elsewhere = |process: &Process| {
        let memberships = process.memberships(&site.proc);
        !memberships.is_empty() && memberships != site.memberships
    };
    Process::all_running(&site.proc).into_iter().filter(is_one).filter(elsewhere).collect()
}

/// Identifies a process's container: all processes of one container have the same key.
fn key(site: &HostView, process: &Process) -> String {
    process.container(&site.proc).unwrap_or_else(|| process.memberships(&site.proc).trim().replace('\n', " "))
}

/// The oldest process, if all processes are in one container; an error if they are in several.
fn single(
    found: &mut Vec<(String, Process)>,
    wanted: &str,
) -> Result<Option<(String, Process)>, AttachRefusal> {
    found.sort_by_key(|(_key, process)| std::cmp::Reverse((process.started, process.pid)));
    let mut keys: Vec<&str> = found.iter().map(|(key, _process)| key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() > 1 {
        return Err(ambiguous_name(wanted, keys.into_iter()));
    }
    Ok(found.pop())
}

pub(super) fn ambiguous_name<'a>(wanted: &str, found: impl Iterator<Item = &'a str>) -> AttachRefusal {
    const MAX_SHOWN_NAMES: usize = 5;
    let all: Vec<&str> = found.collect();
    let more = if all.len() > MAX_SHOWN_NAMES { ", ..." } else { "" };
    let list = all.iter().take(MAX_SHOWN_NAMES).copied().collect::<Vec<_>>().join(", ");
    AttachRefusal::usage_error(format!(
        "'{wanted}' fits {} containers: {list}{more}; say which with --container",
        all.len()
    ))
}
