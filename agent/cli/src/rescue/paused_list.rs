//! A file in the spool directory with the processes that are paused now: `paused-NAMESPACE-PID-STARTED`, with the agent's pid namespace, its
//! id and its start time. An agent that starts continues what is on the lists of agents of its namespace that are gone: in a pod, a
//! container that is killed takes its guardian along.
//!
//! Each line of a list is the id of a process and its start time in clock ticks. The list is replaced as a whole before a process is stopped.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use plimsoll_measure::{kernel, processes::ProcessId};
use rustix::process::Signal;

use super::handle::send;

/// Start of the name of a list.
const PREFIX: &str = "paused-";
/// Most bytes of a list that are read.
const MAX_BYTES: u64 = 128 * 1024;
/// Most lists that are read at once.
const MAX_LISTS: usize = 1000;

/// The list of this agent.
#[derive(Debug)]
pub(super) struct PausedList {
    path: PathBuf,
}

impl PausedList {
    /// The list of this agent in the folder `spool`; `None` if the agent cannot see itself.
    pub(super) fn of_this_process(spool: &Path) -> Option<Self> {
        let own = ProcessId::of_running(std::process::id().cast_signed())?;
        Some(Self { path: spool.join(format!("{PREFIX}{}-{}-{}", namespace()?, own.pid, own.started)) })
    }

    /// Writes an empty list and removes it.
    /// Errors: the folder cannot be written.
    pub(super) fn probe(&self) -> io::Result<()> {
        if let Some(spool) = self.path.parent() {
            fs::create_dir_all(spool)?;
        }
        fs::write(&self.path, "")?;
        fs::remove_file(&self.path)
    }

    /// Replaces the list; an empty one has no file.
    /// Errors: the file cannot be written.
    pub(super) fn replace(&self, paused: &[ProcessId]) -> io::Result<()> {
        if paused.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _removed => Ok(()),
            };
        }
        let draft = self.path.with_extension("draft");
        fs::write(&draft, to_text(paused))?;
        fs::rename(&draft, &self.path)
    }
}

/// The text of a list.
pub(super) fn to_text(paused: &[ProcessId]) -> String {
    let lines: Vec<String> = paused.iter().map(|id| format!("{} {}\n", id.pid, id.started)).collect();
    lines.concat()
}

/// The processes of a list; what is no process is left out.
pub(super) fn from_text(text: &str) -> impl Iterator<Item = ProcessId> {
    text.lines().filter_map(|line| process(line.split_once(' ')?))
}

fn process((pid, started): (&str, &str)) -> Option<ProcessId> {
    Some(ProcessId { started: started.parse().ok()?, pid: pid.parse().ok()? })
}

/// Continues what agents have paused that are gone, by their lists in the folder `spool`. Returns the number of processes.
pub(super) fn continue_left_behind(spool: &Path) -> usize {
    let lists = fs::read_dir(spool).into_iter().flatten().flatten();
    let own = namespace();
    let name = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| owner(name, own?));
    let lists = lists.filter_map(|entry| Some((name(&entry)?, entry.path()))).take(MAX_LISTS);
    let left_behind = lists.filter(|(agent, _)| ProcessId::of_running(agent.pid) != Some(*agent));
    left_behind.map(|(_, path)| continue_all(&path)).sum()
}

/// Number of the pid namespace of this process.
pub(super) fn namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The agent that a list is of, by the name of its file; `None` if it is of another pid namespace than `own`.
fn owner(name: &str, own: u64) -> Option<ProcessId> {
    let (namespace, agent) = name.strip_prefix(PREFIX)?.split_once('-')?;
    process(agent.split_once('-').filter(|_agent| namespace.parse() == Ok(own))?)
}

fn continue_all(path: &Path) -> usize {
    let bytes = kernel::read_regular(path, MAX_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let continued = from_text(&text).filter(|id| matches!(send(*id, Signal::CONT), Ok(true))).count();
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, "a list of paused processes stays");
    }
    continued
}
