//! Limits the memory of large answers. Each reserves its share of the remaining memory before it
//! starts, and is refused if too little is left. A refused caller can retry; too many answers at
//! once would make the kernel kill the server.
//!
//! The remaining memory is read from the kernel at each request ([`MachineMemory::memory_left`]). Reserved but unused shares are subtracted as
//! well.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use plimsoll_core::domain::Bytes;

use super::settings::MachineMemory;

/// Memory that answers must leave free, so that samples are accepted and predictions answered
/// meanwhile.
const RESERVED_BYTES: u64 = 16 << 20;

/// Gives shares of the memory to answers. Cheap to clone; clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct AnswerMemory {
    /// Directory that contains `proc` and `sys`; another one than `/` in tests.
    root: Arc<Path>,
    taken_bytes: Arc<AtomicU64>,
}

/// A share of the memory; given back on drop.
#[derive(Debug)]
pub(crate) struct AnswerShare {
    bytes: u64,
    taken_bytes: Arc<AtomicU64>,
}

/// There is too little memory for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "overloaded: {what} may take {needed_bytes} of memory, and {left_bytes} is left; retry later. If this happens often, give the server more memory, or set history_memory lower"
)]
pub(crate) struct TooLittleMemory {
    what: &'static str,
    needed_bytes: Bytes,
    left_bytes: Bytes,
}

impl Default for AnswerMemory {
    fn default() -> Self {
        Self::below("/".into())
    }
}

impl AnswerMemory {
    /// Reads the files of the kernel below `root`.
    pub(crate) fn below(root: PathBuf) -> Self {
        Self { root: root.into(), taken_bytes: Arc::default() }
    }

    /// Reserves memory for an answer. `what` names the answer in the error. If the files of the
    /// kernel cannot be read, every request succeeds.
    /// Errors: too little memory is left.
    pub(crate) fn take(&self, what: &'static str, needed: Bytes) -> Result<AnswerShare, TooLittleMemory> {
        let before = self.taken_bytes.fetch_add(needed.0, Relaxed);
        let share = AnswerShare { bytes: needed.0, taken_bytes: Arc::clone(&self.taken_bytes) };
        match self.available_bytes(before) {
            Some(left) if left < needed => {
                Err(TooLittleMemory { what, needed_bytes: needed, left_bytes: left })
            }
            _ => Ok(share),
        }
    }

    /// Checks, while an answer is produced, that enough memory is left for everything else.
    /// Errors: too little memory is left.
    pub(crate) fn check(&self, what: &'static str) -> Result<(), TooLittleMemory> {
        match self.available_bytes(0) {
            Some(left) if left.0 == 0 => {
                Err(TooLittleMemory { what, needed_bytes: Bytes(RESERVED_BYTES), left_bytes: left })
            }
            _ => Ok(()),
        }
    }

    fn available_bytes(&self, taken: u64) -> Option<Bytes> {
        let left = MachineMemory::memory_left(&self.root)?;
        Some(Bytes(left.0.saturating_sub(RESERVED_BYTES).saturating_sub(taken)))
    }
}

impl Drop for AnswerShare {
    fn drop(&mut self) {
        self.taken_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A kernel with `available` MiB of free memory.
    pub(crate) fn kernel(available: u64) -> (tempfile::TempDir, AnswerMemory) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let text = format!("MemAvailable: {} kB\n", available << 10);
        std::fs::write(root.path().join("proc/meminfo"), text).unwrap();
        let memory = AnswerMemory::below(root.path().to_owned());
        (root, memory)
    }

    #[test]
    fn answers_share_the_remaining_memory() {
        let (_root, memory) = kernel(16 + 100);
        let first = memory.take("a page", Bytes(60 * MIB)).unwrap();
        let refused = memory.take("a page", Bytes(60 * MIB)).unwrap_err();
        let too_little =
            TooLittleMemory { what: "a page", needed_bytes: Bytes(60 * MIB), left_bytes: Bytes(40 * MIB) };
        assert_eq!(refused, too_little);
        let refused = refused.to_string();
        assert!(refused.starts_with("overloaded: a page may take 60 MiB of memory, and 40 MiB is left"));
        memory.take("a page", Bytes(40 * MIB)).unwrap();
        drop(first);
        memory.take("a page", Bytes(100 * MIB)).unwrap();
        assert_eq!(memory.taken_bytes.load(Relaxed), 0, "all is given back, by the refused one, too");
    }

    #[test]
    fn an_answer_stops_before_memory_runs_out() {
        let (_root, memory) = kernel(17);
        memory.check("a backup").unwrap();
        let (_root, memory) = kernel(16);
        assert!(memory.check("a backup").is_err());
        let silent = AnswerMemory::below("/nowhere".into());
        silent.take("a page", Bytes(u64::MAX >> 1)).unwrap();
        silent.check("a backup").unwrap();
    }
}
