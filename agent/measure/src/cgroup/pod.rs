//! Finds the groups of a Kubernetes pod and of its containers in the host's cgroup filesystem.
//!
//! | driver | pod | container |
//! |---|---|---|
//! | cgroupfs | `kubepods/burstable/podUID` | `ID` |
//! | systemd | `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice`, `-` of the UID as `_` | `cri-containerd-ID.scope`, `crio-`, `docker-` |
//!
//! The folders above `kubepods` differ: there may be none, `kubelet.slice`, or those of a node that is a container itself.

use std::path::{Path, PathBuf};

use super::{
    folder::{folders_in, is_group, members},
    foreign::container_id,
};
use crate::kernel;

/// Folders deeper than this contain no containers.
const MAX_DEPTH: usize = 8;
/// Most folders that one search visits; with more, the search began in the wrong folder.
const MAX_FOLDERS: usize = 20_000;
/// Most memory of a pause container in bytes. Such a container only holds the pod's namespaces, and uses some hundred KiB.
const PAUSE_BYTES: u64 = 2 << 20;

/// One container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The container's id; the name of its folder if that contains no id.
    pub id: String,
    /// The container's folder.
    pub dir: PathBuf,
}

/// The folder of the pod with the UID `uid` below `top`, the mount of a hierarchy; `None` if it does not exist yet.
pub fn find_pod(top: &Path, uid: &str) -> Option<PathBuf> {
    let (plain, escaped) = (format!("pod{uid}"), format!("-pod{}.slice", uid.replace('-', "_")));
    // only `kubepods` contains pods, and it is at most two levels below the mount
    let may_hold = |name: &str, depth: usize| depth < 2 || name.contains("kube") || name.contains("pods");
    let is_pod = |name: &str| name == plain || name.ends_with(&escaped);
    search(top, is_pod, |name, depth| may_hold(name, depth) || is_quality_class(name)).into_iter().next()
}

/// Whether this is the name of a quality-of-service class. With the cgroupfs driver its folder is between `kubepods` and the pods.
fn is_quality_class(name: &str) -> bool {
    matches!(name, "burstable" | "besteffort" | "guaranteed")
}

/// All containers below `top` with an id that begins with `id`.
pub fn find_containers(top: &Path, id: &str) -> Vec<Container> {
    let is_it = |name: &str| container_id(name).is_some_and(|found| found.starts_with(id));
    let dirs = search(top, is_it, |name, _depth| container_id(name).is_none());
    dirs.into_iter().map(container_of).collect()
}

/// The containers of a pod, without the groups of conmon and other monitors of containers.
pub fn containers(pod: &Path) -> Vec<Container> {
    folders_in(pod)
        .filter(|dir| is_group(dir).unwrap_or(false))
        .filter(|dir| !folder_name(dir).contains("conmon"))
        .map(container_of)
        .collect()
}

/// Whether a container looks like a pause container: at most one process (v1 may not show it) and almost no memory.
pub fn looks_like_pause(container: &Container) -> bool {
    let bytes = ["memory.current", "memory.usage_in_bytes"].iter().find_map(|file| {
        let text = kernel::read(&container.dir.join(file)).ok().flatten()?;
        text.trim().parse::<u64>().ok()
    });
    members(&container.dir).len() <= 1 && bytes.is_some_and(|bytes| bytes < PAUSE_BYTES)
}

fn container_of(dir: PathBuf) -> Container {
    let name = folder_name(&dir);
    Container { id: container_id(name).unwrap_or(name).to_owned(), dir }
}

fn folder_name(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The folders below `top` for which `wanted` is true, nearest first. The search enters only folders for which `enter` is true, and no
/// folder that it found.
fn search(top: &Path, wanted: impl Fn(&str) -> bool, enter: impl Fn(&str, usize) -> bool) -> Vec<PathBuf> {
    let (mut found, mut seen, mut level) = (Vec::new(), 0, vec![top.to_owned()]);
    for depth in 0..MAX_DEPTH {
        let (mut next, room) = (Vec::new(), MAX_FOLDERS.saturating_sub(seen));
        for dir in level.iter().flat_map(|dir| folders_in(dir)).take(room) {
            seen += 1;
            if wanted(folder_name(&dir)) {
                found.push(dir);
            } else if enter(folder_name(&dir), depth) {
                next.push(dir);
            }
        }
        level = next;
    }
    if seen >= MAX_FOLDERS {
        tracing::warn!(top = %top.display(), "stopped searching after {MAX_FOLDERS} cgroups");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    const UID: &str = "5f0e1d1c-1111-2222-3333-444455556666";
    const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222222222222222222222222222";

    fn ids(pod: &Path) -> Vec<String> {
        let mut ids: Vec<String> = containers(pod).into_iter().map(|container| container.id).collect();
        ids.sort();
        ids
    }

    #[test]
    fn pods_are_found_with_both_cgroup_drivers() {
        let systemd = "kubepods-burstable-pod5f0e1d1c_1111_2222_3333_444455556666.slice";
        for (pod, prefix, suffix) in [
            (format!("kubepods/burstable/pod{UID}"), "", ""),
            (format!("kubepods/pod{UID}"), "", ""),
            (format!("kubepods.slice/kubepods-burstable.slice/{systemd}"), "cri-containerd-", ".scope"),
            (
                format!(
                    "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-{systemd}"
                ),
                "crio-",
                ".scope",
            ),
        ] {
            let fake = FakeKernel::new();
            for id in [ONE, TWO] {
                fake.write(&format!("/host/{pod}/{prefix}{id}{suffix}/cgroup.procs"), "0\n");
                fake.write(&format!("/host/{pod}/crio-conmon-{id}.scope/cgroup.procs"), "0\n");
            }
            fake.write(
                "/host/kubepods/besteffort/pod5f0e1d1c-1111-2222-3333-444455556667/x/cgroup.procs",
                "",
            );
            let top = fake.kernel().path("/host");
            let found = find_pod(&top, UID).unwrap_or_else(|| panic!("{pod}"));
            assert_eq!(found, top.join(&pod));
            assert_eq!(ids(&found), [ONE, TWO], "{pod}");
            assert_eq!(find_containers(&top, "22222222").len(), 1, "{pod}");
            assert_eq!(find_pod(&top, "5f0e1d1c"), None, "a part of a UID is none");
        }
    }

    #[test]
    fn the_pause_container_is_small_and_alone() {
        let fake = FakeKernel::v2("/pod/pause");
        let pause = container_of(fake.kernel().path("/sys/fs/cgroup/pod/pause"));
        assert!(looks_like_pause(&pause));
        fake.write("/sys/fs/cgroup/pod/pause/cgroup.procs", "0\n0\n");
        assert!(!looks_like_pause(&pause));
        fake.write("/sys/fs/cgroup/pod/pause/cgroup.procs", "0\n");
        fake.write("/sys/fs/cgroup/pod/pause/memory.current", "50000000\n");
        assert!(!looks_like_pause(&pause));
    }
}
