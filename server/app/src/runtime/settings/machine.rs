//! Memory that this process may use: the smallest limit of its cgroup and the cgroup's parents, or the machine's RAM.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::bail;
use plimsoll_core::domain::Bytes;
use plimsoll_measure::{
    cgroup::{self, KillingLimit},
    kernel::Kernel,
};

use super::Config;

/// Memory that the process may use, and where the number comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineMemory {
    /// Memory that the process may use.
    pub bytes: Bytes,
    /// The file with the limit.
    pub source: String,
}

impl fmt::Display for MachineMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.bytes, self.source)
    }
}

/// The RAM of the machine and what is free of it.
const MEMINFO: &str = "/proc/meminfo";

impl MachineMemory {
    /// Reads the kernel's files below `root`; `None` if they cannot be read.
    pub fn read(root: &Path) -> Option<Self> {
        let ram = meminfo(root, "MemTotal:").map(|bytes| (bytes, PathBuf::from(MEMINFO)));
        let limits = limits(root).into_iter().map(|limit| (limit.bytes, limit.file));
        // of equal limits the innermost one is named, because an operator finds it first
        let (bytes, file) = limits.chain(ram).min_by_key(|(bytes, _)| *bytes)?;
        let source = Path::new("/").join(file.strip_prefix(root).unwrap_or(&file));
        Some(Self { bytes: Bytes(bytes), source: source.display().to_string() })
    }

    /// Memory that this process can still use before the kernel kills it, from the files below
    /// `root`; `None` if unknown.
    pub(crate) fn memory_left(root: &Path) -> Option<Bytes> {
        let limits = limits(root).into_iter().filter_map(|limit| limit.left);
        limits.chain(meminfo(root, "MemAvailable:")).min().map(Bytes)
    }
}

/// The limits of the cgroup of this process and of those above it, innermost first; none if they cannot be read.
fn limits(root: &Path) -> Vec<KillingLimit> {
    let groups = cgroup::find(&Kernel::at(root), "self").ok().flatten();
    groups.map(|groups| KillingLimit::of(&groups).collect()).unwrap_or_default()
}

/// A field of `/proc/meminfo`, bytes.
fn meminfo(root: &Path, field: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join(MEMINFO.trim_start_matches('/'))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Memory of the program apart from its history and the storage engine: code, threads, connections
/// and answers. Together with the next two constants it fits what a server used besides its history
/// when it started to serve, measured on x86-64 with glibc: 103 MiB with a store of 61 MB, 147 MiB
/// with 176 MB and 203 MiB with 588 MB (a million attempts). The engine sled alone took 58, 115 and
/// 152 MiB of these.
const PROGRAM_BYTES: u64 = 64 << 20;
/// The storage engine uses this multiple of its configured cache.
const CACHE_MULTIPLE: u64 = 2;
/// Bytes of the store's log for which sled needs one byte of memory: it keeps the positions of
/// pages.
const LOG_PER_BYTE: u64 = 32;
/// The kernel is left one part in this many of the machine's memory: for buffers of connections,
/// page tables, recently read files.
const KERNEL_PART: u64 = 16;

/// The history really takes 8/5 of its estimated memory: the allocator keeps part of what is freed
/// while the history is read, and after each answer. A server with a store of a million attempts
/// (500 MB) used, in addition to the estimate, 202 MiB with a history of 70 MiB, 298 MiB with 192
/// MiB, and 377 MiB with 384 MiB (glibc, two cores).
const TAKEN_FOR_HISTORY: (u64, u64) = (8, 5);

/// Bytes that must be free for a backup or an answer over all attempts, even if the history is full
/// (see `answer_memory`).
const ANSWER_BYTES: u64 = 64 << 20;

/// Memory of the server without its history, in bytes.
pub(super) fn bytes_without_history(config: &Config) -> u64 {
    let engine =
        config.store_cache.0.saturating_mul(CACHE_MULTIPLE).saturating_add(config.log_bytes / LOG_PER_BYTE);
    engine.saturating_add(PROGRAM_BYTES)
}

/// Bytes that a machine has for the history, after the kernel, the program, answers and backups.
pub(super) fn bytes_for_history(machine: u64, config: &Config) -> u64 {
    let (taken, of) = TAKEN_FOR_HISTORY;
    let kept =
        (machine / KERNEL_PART).saturating_add(bytes_without_history(config)).saturating_add(ANSWER_BYTES);
    machine.saturating_sub(kept) / taken * of
}

/// Size of the engine's log in a data directory, bytes; 0 if it does not exist yet.
pub(crate) fn log_bytes(data_dir: &Path) -> u64 {
    fs::metadata(data_dir.join("sled/db")).map_or(0, |log| log.len())
}

/// Memory that the settings need, and memory that the process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Memory of the history when it is full.
    pub(crate) history: Bytes,
    /// Memory of the whole server when the history is full.
    pub(crate) all: Bytes,
    /// Where the size of the history comes from, as text.
    pub(crate) reason: String,
    machine: Option<MachineMemory>,
    /// Bytes of history that the machine has space for; `None` if even the least history does not
    /// fit.
    most_history: Option<u64>,
}

impl MemoryPlan {
    pub(crate) fn of(config: &Config) -> Self {
        let history = u64::try_from(config.history_room().bytes).unwrap_or(u64::MAX);
        let follows = |machine: &&MachineMemory| {
            config.history_memory.is_none() && config.share_of(machine.bytes) == Bytes(history)
        };
        let machine = config.machine.as_ref();
        let reason = match machine.filter(follows) {
            _ if config.history_memory.is_some() => "history_memory".to_owned(),
            Some(machine) => format!("the default for {machine}"),
            None => "the default, 480 MiB for each million of history_attempts".to_owned(),
        };
        let all = Bytes(history.saturating_add(bytes_without_history(config)));
        let has_room =
            |machine: &&MachineMemory| Config::MIN_HISTORY + bytes_without_history(config) <= machine.bytes.0;
        let most_history = machine.filter(has_room);
        let most_history =
            most_history.map(|machine| bytes_for_history(machine.bytes.0, config).max(Config::MIN_HISTORY));
        Self { history: Bytes(history), all, reason, machine: machine.cloned(), most_history }
    }

    /// What to change so that a backup of the running server fits beside a full history; `None` if it fits.
    pub(crate) fn backup_shortage(config: &Config) -> Option<String> {
        let machine = config.machine.as_ref()?;
        let most = bytes_for_history(machine.bytes.0, config);
        if config.history_room().bytes as u64 <= most {
            return None;
        }
        let advice = if most >= Config::MIN_HISTORY {
            format!("set history_memory to at most {}MiB", most >> 20)
        } else {
            let least = bytes_without_history(config) + ANSWER_BYTES + Config::MIN_HISTORY * 2;
            format!("give it at least {}", Bytes(least / (KERNEL_PART - 1) * KERNEL_PART))
        };
        Some(format!(
            "with a full history {machine} is too little for a backup of the running server, and for statistics over all attempts: they are \
             refused (503); {advice}, or stop the server for a backup"
        ))
    }

    /// Checks whether there is enough memory.
    /// Errors: with a full history the server would need more memory than it may use, and the kernel would kill it. The text names the
    /// needed memory, the available memory, and the setting to change.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Some(machine) = self.machine.as_ref().filter(|machine| machine.bytes < self.all) else {
            return Ok(());
        };
        let advice = match self.most_history {
            Some(most) => format!("set history_memory to at most {}MiB", most >> 20),
            None => "set store_cache lower".to_owned(),
        };
        bail!(
            "not enough memory: with a full history the server needs {}: {} for the history, {} for the store and the program; but it may use \
             only {machine}, and the kernel would kill it: {advice}, or give it more memory",
            self.all,
            self.history,
            Bytes(self.all.0.saturating_sub(self.history.0)),
        )
    }
}

#[cfg(test)]
mod tests;
