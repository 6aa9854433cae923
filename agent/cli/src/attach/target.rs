//! Which build to follow, as given on the command line. Invalid names are reported before the search begins.

use std::path::{Component, Path, PathBuf};

/// Least length of the first part of a container's id; a shorter part matches too many containers.
const SHORTEST_ID: usize = 8;
/// Longest name or id in Kubernetes.
const LONGEST_NAME: usize = 253;

/// The build to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process and its descendants.
    Process(i32),
    /// The container with an id that starts with this text.
    Container(String),
    /// The container of the agent's own pod that has this name.
    Named(String),
    /// A cgroup, below the mounted hierarchies.
    Group(PathBuf),
    /// A container of the pod with this UID, in the host's cgroups.
    Pod(String, ContainerChoice),
}

/// The container of a pod to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerChoice {
    /// The only container of the pod besides the agent's own.
    Only,
    /// The container with an id that starts with this text.
    Id(String),
    /// The container with this name.
    Named(String),
}

impl Target {
    /// Whether the target is a single process, so that the build ends with it.
    pub(super) fn is_process(&self) -> bool {
        !matches!(self, Self::Group(_))
    }

    /// Parses a process id.
    pub fn process(text: &str) -> Result<i32, String> {
        let pid: i32 = text.parse().map_err(|_text: std::num::ParseIntError| "expected a process id")?;
        if pid < 1 {
            return Err("expected a process id, 1 or more".to_owned());
        }
        if u32::try_from(pid) == Ok(std::process::id()) {
            return Err("that is the agent itself".to_owned());
        }
        Ok(pid)
    }

    /// Parses the id of a container or its first part; also in the form of Kubernetes, `containerd://ID`.
    pub fn container(text: &str) -> Result<String, String> {
        let id = text.rsplit_once("://").map_or(text, |(_runtime, id)| id).to_ascii_lowercase();
        if id.len() < SHORTEST_ID || id.len() > 64 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!(
                "expected {SHORTEST_ID} to 64 hexadecimal digits; a name goes to --container-name"
            ));
        }
        Ok(id)
    }

    /// Parses a name or UID of Kubernetes.
    pub fn name(text: &str) -> Result<String, String> {
        let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
        if text.is_empty() || text.len() > LONGEST_NAME || text.contains("..") || !text.chars().all(fits) {
            return Err(format!("expected 1 to {LONGEST_NAME} of A-Z a-z 0-9 - _ . without '..'"));
        }
        Ok(text.to_owned())
    }

    /// Parses a pod's UID. `_` is accepted for `-`, because the systemd cgroup driver writes it so.
    pub fn uid(text: &str) -> Result<String, String> {
        Self::name(text.strip_prefix("pod").unwrap_or(text)).map(|uid| uid.replace('_', "-"))
    }

    /// Parses the path of a cgroup: below the mounted hierarchies, or with the mount at its start.
    pub fn group(text: &str) -> Result<PathBuf, String> {
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err("'..' leads out of the group; give the path without it".to_owned());
        }
        if !path.components().any(|part| matches!(part, Component::Normal(_))) {
            return Err("expected the path of a group; the root is the whole machine".to_owned());
        }
        Ok(path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_names_are_refused_with_the_way_out() {
        let own = std::process::id().to_string();
        for (result, expected) in [
            (Target::process("0").map(|_| ()), "1 or more"),
            (Target::process("-5").map(|_| ()), "1 or more"),
            (Target::process("99999999999").map(|_| ()), "a process id"),
            (Target::process(&own).map(|_| ()), "the agent itself"),
            (Target::container("build").map(|_| ()), "--container-name"),
            (Target::container("abc1").map(|_| ()), "8 to 64"),
            (Target::name("a b").map(|_| ()), "expected 1 to 253"),
            (Target::name("").map(|_| ()), "expected 1 to 253"),
            (Target::uid("../../x").map(|_| ()), "expected 1 to 253"),
            (Target::group("a/../b").map(|_| ()), "'..' leads out"),
            (Target::group("/").map(|_| ()), "the whole machine"),
            (Target::group("").map(|_| ()), "expected the path"),
        ] {
            let error = result.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn kubernetes_and_runtime_name_formats_are_accepted() {
        assert_eq!(Target::container("containerd://ABCDEF0123").unwrap(), "abcdef0123");
        assert_eq!(Target::uid("5f0e1d1c_1111").unwrap(), "5f0e1d1c-1111");
        assert_eq!(Target::group("user.slice/a b").unwrap(), PathBuf::from("user.slice/a b"));
        assert_eq!(Target::process("1").unwrap(), 1);
    }
}
