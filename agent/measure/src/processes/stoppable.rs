//! A last look at a process before it is paused: facts that cost a reading each, and may have changed since the process started.

use std::{fs, path::Path};

use super::{MAX_PARENTS, ProcessId, ProcessTable, programs};
use crate::{kernel, offload::is_bazel};

/// Most bytes of a command line that are read.
const MAX_LINE: u64 = 4096;

/// Whether a process is still the one that was seen, is of the agent's own user, is not traced, and runs a compiler and no program that
/// only has its name: `ccache` and `distcc` hold locks and connections.
pub(crate) fn may_be_stopped(proc: &Path, id: ProcessId, more: &[String]) -> bool {
    let folder = proc.join(id.pid.to_string());
    let status = kernel::read(&folder.join("status")).ok().flatten().unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // real, effective, saved, file system
    let users = field("Uid:").map(|ids| ids.split_whitespace().map(str::parse::<u32>).collect::<Vec<_>>());
    let own = Ok(rustix::process::geteuid().as_raw());
    let is_own = users.is_some_and(|users| users.len() == 4 && users.iter().all(|user| *user == own));
    let is_untraced = field("TracerPid:").is_some_and(|tracer| tracer.trim() == "0");
    is_own && is_untraced && runs_compiler(&folder, more) && has_started_at(&folder, id.started)
}

/// Whether a program is above a process that takes notice of a pause, and that only its command line names: bazel's server, a Java program,
/// or a test runner in an interpreter.
pub(crate) fn has_watcher_above(table: &ProcessTable, id: ProcessId) -> bool {
    let by_pid = table.by_pid();
    let above = std::iter::successors(by_pid.get(&id.pid), |process| by_pid.get(&process.parent));
    above.skip(1).take(MAX_PARENTS).any(|process| {
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
    let started_by = table.list.iter().find(|process| process.id.pid == parent)?;
    let is_watcher =
        programs::is_watcher(&started_by.name) || has_watcher_above(&table, ProcessId::of_running(own)?);
    is_watcher.then(|| started_by.name.clone())
}

fn runs_compiler(folder: &Path, more: &[String]) -> bool {
    let Ok(file) = fs::read_link(folder.join("exe")) else { return false };
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    // the kernel says so of a file that was replaced, as by an update of the compiler
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    programs::is_compiler_name(name) || more.iter().any(|more| more == name)
}

fn has_started_at(folder: &Path, started: u64) -> bool {
    let stat = kernel::read(&folder.join("stat")).ok().flatten().unwrap_or_default();
    // fields 3 and 22 of proc_pid_stat(5); the name before them may hold anything
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    fields.and_then(|fields| fields.split(' ').nth(19)?.parse().ok()) == Some(started)
}
