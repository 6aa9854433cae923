//! Reads the folder of a cgroup: whether it is one, which processes run in it, and which groups are below it.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::kernel::{self, Error};

/// Most groups below one group that are read.
const MAX_NESTED_GROUPS: usize = 1000;

/// Whether a folder is a cgroup.
/// Errors: the folder cannot be read.
pub fn is_group(dir: &Path) -> Result<bool, Error> {
    let file = dir.join("cgroup.procs");
    match fs::metadata(&file) {
        Ok(found) => Ok(found.is_file()),
        Err(problem) if matches!(problem.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(problem) => Err(Error::new(&file, problem)),
    }
}

/// Ids of the processes in a group and below it. On v2, the id is 0 for a process that the agent's pid
/// namespace does not show.
pub fn members(dir: &Path) -> Vec<i32> {
    let mut dirs = vec![dir.to_owned()];
    let (mut pids, mut looked_at) = (Vec::new(), 0);
    while let Some(dir) = dirs.get(looked_at).cloned() {
        looked_at += 1;
        // a group that was removed meanwhile has no processes
        let text = kernel::read(&dir.join("cgroup.procs")).ok().flatten().unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()));
        dirs.extend(folders_in(&dir).take(MAX_NESTED_GROUPS.saturating_sub(dirs.len())));
    }
    pids
}

/// The folders in a folder; none if it cannot be read.
pub(super) fn folders_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}
