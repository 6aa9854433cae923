//! Only one agent pauses a build: locks on the folders of cgroups, which every agent sees that sees the group. A wrapper that gave the build
//! a group of its own shares the group above with other wrappers, and never with an agent that follows that whole group.

use std::{fs::File, path::Path};

use rustix::fs::{FlockOperation, flock};

/// The right to pause the processes of one cgroup; it ends with the agent.
#[derive(Debug)]
pub(super) struct BuildLock {
    _folders: Vec<File>,
}

impl BuildLock {
    /// Takes the right to pause what runs in the group `dir`. `is_own`: the agent made it below the group that it is in. The error says why
    /// that is not possible.
    pub(super) fn take(dir: &Path, is_own: bool) -> Result<Self, String> {
        let mut folders = vec![lock(dir, FlockOperation::NonBlockingLockExclusive)?];
        if let Some(above) = dir.parent().filter(|_above| is_own) {
            folders.push(lock(above, FlockOperation::NonBlockingLockShared)?);
        }
        Ok(Self { _folders: folders })
    }
}

fn lock(dir: &Path, operation: FlockOperation) -> Result<File, String> {
    let folder = File::open(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    match flock(&folder, operation) {
        Ok(()) => Ok(folder),
        Err(rustix::io::Errno::WOULDBLOCK) => Err("another agent may pause this build".to_owned()),
        Err(error) => Err(format!("{}: {error}", dir.display())),
    }
}
