//! A last look at a process before it is paused: facts that cost a reading each, and may have changed since the process started.

use std::{fs, path::Path};

use super::{ProcessId, ProcessTable, programs};
use crate::{kernel, offload::is_bazel};

/// Most bytes of a command line that are read.
const MAX_LINE: u64 = 4096;

/// Whether a process is still the one that was seen, is of the agent's own user, is not traced or watched, and runs a compiler and no program
/// that only has its name: `ccache` and `distcc` hold locks and connections. `more`: further programs that may be stopped.
pub(crate) fn may_be_stopped(table: &ProcessTable, id: ProcessId, more: &[String]) -> bool {
    let folder = table.proc.join(id.pid.to_string());
    let status = kernel::read(&folder.join("status")).ok().flatten().unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // real, effective, saved, file system
    let users = field("Uid:").map(|ids| ids.split_whitespace().map(str::parse::<u32>).collect::<Vec<_>>());
    let own = Ok(rustix::process::geteuid().as_raw());
    let is_own = users.is_some_and(|users| users.len() == 4 && users.iter().all(|user| *user == own));
    let is_untraced = field("TracerPid:").is_some_and(|tracer| tracer.trim() == "0");
    let is_same = || {
        let now = ProcessTable::read(table.proc.clone(), &[id.pid]);
        now.processes.get(&id.pid).is_some_and(|process| process.id == id)
    };
    is_own && is_untraced && runs_compiler(&folder, more) && !has_watcher_above(table, id.pid) && is_same()
}

/// Whether a program is above a process that takes notice of a pause, and that only its command line names: bazel's server, a Java program,
/// or a test runner in an interpreter.
pub(crate) fn has_watcher_above(table: &ProcessTable, pid: i32) -> bool {
    table.above(pid).any(|process| {
        let folder = table.proc.join(process.id.pid.to_string());
        let interprets = || {
            let line = kernel::read_regular(&folder.join("cmdline"), MAX_LINE).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            programs::interprets_watcher(&line.split('\0').collect::<Vec<_>>())
        };
        process.name == "java" && is_bazel(&folder) || programs::is_interpreter(&process.name) && interprets()
    })
}

/// Name of the program that started this process, if it ends, or judges, what does not go on.
pub fn watcher_of_this_process() -> Option<String> {
    let own = std::process::id().cast_signed();
    let parent = std::os::unix::process::parent_id().cast_signed();
    let table = ProcessTable::read("/proc".into(), &[own, parent]);
    let started_by = table.processes.get(&parent)?;
    let is_watcher = programs::is_watcher(&started_by.name) || has_watcher_above(&table, own);
    is_watcher.then(|| started_by.name.clone())
}

fn runs_compiler(folder: &Path, more: &[String]) -> bool {
    let Ok(file) = fs::read_link(folder.join("exe")) else { return false };
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    // the kernel says so of a file that was replaced, as by an update of the compiler
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    programs::is_compiler(name) || more.iter().any(|more| more == name)
}
