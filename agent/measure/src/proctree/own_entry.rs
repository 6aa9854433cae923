//! How this process appears in a `/proc`. A container that may not mount its own `/proc` shows that of another pid namespace, in which the
//! agent and the build have other ids, and the agent's own id is that of a foreign process.

use std::{fs, io::ErrorKind, path::Path};

use crate::kernel;

/// The entry of this process in a `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEntry {
    /// The `/proc` shows the agent's pid namespace: ids in it are those of system calls and of `cgroup.procs`.
    Same,
    /// The `/proc` shows a namespace above the agent's, where the agent has this id.
    Above(i32),
    /// The `/proc` does not show the agent, so it shows nothing of its build.
    None,
}

impl OwnEntry {
    /// The agent's id there.
    pub(crate) fn id(self) -> Option<i32> {
        match self {
            Self::Same => Some(std::process::id().cast_signed()),
            Self::Above(id) => Some(id),
            Self::None => None,
        }
    }

    /// Finds the entry in the folder `proc`. A folder without an entry `self` counts as the own namespace, as in kernels of text files.
    pub fn find(proc: &Path) -> Self {
        let own = std::process::id().cast_signed();
        let entry = proc.join("self");
        let target = match fs::read_link(&entry) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound && entry.is_symlink() => return Self::None,
            Err(_no_link) => return Self::Same,
        };
        let Some(id) = target.to_str().and_then(|id| id.parse().ok()) else { return Self::None };
        let status = kernel::read(&entry.join("status")).ok().flatten().unwrap_or_default();
        // the ids in each namespace, from that of this `/proc` to the innermost one (Linux 4.1)
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let namespaces = ids.map_or(1, |ids| ids.split_whitespace().count());
        if id == own && namespaces <= 1 { Self::Same } else { Self::Above(id) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn another_namespaces_proc_is_recognized() {
        assert_eq!(OwnEntry::find(Path::new("/proc")), OwnEntry::Same);
        let own = std::process::id().cast_signed();
        for (id, ids, expected) in [
            (own, None, OwnEntry::Same),
            (own, Some(format!("{own}")), OwnEntry::Same),
            (own, Some(format!("{own}\t{own}")), OwnEntry::Above(own)),
            (own + 1, Some(format!("{}\t{own}", own + 1)), OwnEntry::Above(own + 1)),
            (own + 1, None, OwnEntry::Above(own + 1)),
        ] {
            let fake = FakeKernel::new();
            let ids_line = ids.as_ref().map(|ids| format!("NSpid:\t{ids}\n")).unwrap_or_default();
            fake.write(&format!("/proc/{id}/status"), &format!("Name:\tx\n{ids_line}"));
            let proc = fake.kernel().path("/proc");
            symlink(id.to_string(), proc.join("self")).unwrap();
            assert_eq!(OwnEntry::find(&proc), expected, "{id} {ids:?}");
        }
    }
}
