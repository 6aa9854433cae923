//! Finds a container of a pod in the host's cgroups. These show no container names, and the processes may be
//! invisible.

use plimsoll_measure::cgroup::{
    foreign::{CgroupMounts, Occupancy, occupancy},
    pod::{self, Container},
};

use super::{
    containers::ambiguous_name,
    found::{AttachRefusal, SearchResult},
    host_view::HostView,
    measuring::by_folder,
    process::Process,
    target::ContainerChoice,
};

pub(super) fn by_pod(site: &HostView, uid: &str, choice: &ContainerChoice) -> SearchResult {
    let layout =
        site.searched_mounts().map_err(|error| AttachRefusal::nothing_to_measure(error.to_string()))?;
    let Some(folder) = layout.memory_mounts().find_map(|mount| pod::find_pod(mount, uid)) else {
        let hint = if site.host_cgroup.is_none() {
            "; is the host's cgroup folder given as --host-cgroup?"
        } else {
            ""
        };
        return Ok(Err(format!("there is no cgroup of pod {uid}{hint}").into()));
    };
    let mut worse = Vec::new();
    let mut found = pod::containers(&folder);
    match choice {
        ContainerChoice::Id(id) => found.retain(|container| container.id.starts_with(id)),
        ContainerChoice::Named(name) => {
            if let Some(id) = named(site, uid, name) {
                found.retain(|container| container.id == id);
            } else {
                worse.push(format!("no process shows which container is '{name}'"));
                retain_build(site, &layout, &mut found);
            }
        }
        ContainerChoice::Only => retain_build(site, &layout, &mut found),
    }
    if found.len() > 1 {
        return Err(ambiguous_name(uid, found.iter().map(|container| container.id.as_str())));
    }
    match found.first() {
        Some(container) => by_folder(site, &layout, &container.dir, worse),
        None => Ok(Err(format!("the container is not in the cgroup {} yet", folder.display()).into())),
    }
}

/// The id of the pod's container with this name, if the agent sees one of its processes.
fn named(site: &HostView, uid: &str, name: &str) -> Option<String> {
    Process::all_running(&site.proc).into_iter().find_map(|process| {
        let found = process.kubernetes(&site.proc)?;
        (found.container == name && found.pod_uid == uid).then(|| process.container(&site.proc)).flatten()
    })
}

/// Keeps the containers that may be the build. Removes the agent's own, the pause container, and containers
/// that have ended.
fn retain_build(site: &HostView, layout: &CgroupMounts, found: &mut Vec<Container>) {
    found.retain(|container| {
        let groups = layout.groups_at(&container.dir).ok().flatten();
        let busy =
            groups.as_ref().is_some_and(|groups| matches!(occupancy(&groups.memory), Ok(Occupancy::Busy)));
        let own = groups.is_some_and(|groups| HostView::is_in(&groups.memory));
        busy && !own && !site.related_ids.contains(&container.id)
    });
    found.retain(|container| !pod::looks_like_pause(container));
}
