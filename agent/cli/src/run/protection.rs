//! Protects the agent from the kernel's OOM killer.
//!
//! In a group with `memory.oom.group` (the kubelet's default on v2) the kernel would kill the agent together
//! with the build, and what the agent knows about the kill would be lost. In another group that they share, it
//! could kill the agent instead of the build. In both cases the kernel spares a process with a score adjustment
//! of -1000 (kernel documentation, cgroup-v2, `memory.oom.group`).

use std::{fs, io, path::PathBuf};

use plimsoll_measure::kernel::Kernel;

/// The kernel's `OOM_SCORE_ADJ_MIN`: the process is never killed for lack of memory.
const NEVER_KILLED: &str = "-1000";

/// Protection of the calling process. Children that it starts while it is protected inherit the protection.
#[derive(Debug)]
pub(super) struct Protection {
    file: PathBuf,
    /// The process's score adjustment before it was protected; `None` while it is not protected.
    original: Option<String>,
}

impl Protection {
    /// A process that is not protected yet.
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self { file: kernel.path("/proc/self/oom_score_adj"), original: None }
    }

    /// Protects the calling process from the OOM killer, if it has the right to do so (`CAP_SYS_RESOURCE`). Call this after the command was
    /// started.
    pub(super) fn protect(&mut self) {
        let before = fs::read_to_string(&self.file).unwrap_or_else(|_absent| "0".to_owned());
        match fs::write(&self.file, NEVER_KILLED) {
            Ok(()) => self.original = Some(before),
            Err(error) => tracing::debug!(%error, "the kernel may kill the agent for memory"),
        }
    }

    /// Removes the protection. Call this before another command is started.
    /// Errors: the kernel refuses. A command must not be started then: it would inherit the protection and could not be killed for lack of
    /// memory.
    pub(super) fn unprotect(&mut self) -> io::Result<()> {
        match self.original.take() {
            Some(before) => fs::write(&self.file, before.trim()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_started_after_unprotect_are_killable() {
        let (root, file) = plimsoll_support::temporary::file_name("proc/self/oom_score_adj");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "17\n").unwrap();
        let score = || fs::read_to_string(&file).unwrap();
        let mut protection = Protection::new(&Kernel::at(root.path()));
        protection.unprotect().unwrap();
        assert_eq!(score(), "17\n", "it was not taken");
        for _try in 0..2 {
            protection.protect();
            assert_eq!(score(), "-1000");
            protection.unprotect().unwrap();
            assert_eq!(score(), "17");
        }
        protection.protect();
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
        assert!(protection.unprotect().is_err());
    }
}
