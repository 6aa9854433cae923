//! Reads which share each process has of the pages that it shares with others. This is expensive, so it is done as rarely as possible.
//!
//! For `smaps_rollup` the kernel walks all pages of a process. Measured on Linux 6.18 with 140 mappings in each process: 0.3 ms for 4 MiB,
//! 1.6 ms for 128 MiB, 7 ms for 512 MiB; 50 processes of 128 MiB take 79 ms, and their `status` takes 0.6 ms. So it is read at these times:
//!
//! | process | when its share is read |
//! |---|---|
//! | a new process, and its parent, which shares pages with it | at once |
//! | a process that shares many pages | when processes were started or ended |
//! | every other process | in turn, for at most [`READING_TIME`] in each reading |
//!
//! Between two readings, the growth of a process is added to its last share, because new pages are its own.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::kib_field;
use crate::{clock::thread_cpu_time, kernel};

/// Resident bytes of a process from which `smaps_rollup` is read: the many small tools of a build share little. This is an estimate.
const MIN_ROLLUP_BYTES: u64 = 4 << 20;
/// CPU time that each reading spends on renewing shares that are still valid: ten readings a second then take 1 % of a core.
const READING_TIME: Duration = Duration::from_millis(1);

/// Bytes of one process, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResidentMemory {
    /// With what is in swap, which is still needed.
    pub(super) anonymous: u64,
    pub(super) shared: u64,
    /// Bytes that the kernel can read from a file again.
    pub(super) file: u64,
}

impl ResidentMemory {
    /// The bytes in a text of `/proc/PID/status`.
    pub(super) fn of_status(status: &str) -> Self {
        let bytes = |name| kib_field(status, name).unwrap_or(0);
        let (resident, anonymous, shared) = (bytes("VmRSS:"), bytes("RssAnon:"), bytes("RssShmem:"));
        let file = resident.saturating_sub(anonymous.saturating_add(shared));
        Self { anonymous: anonymous.saturating_add(bytes("VmSwap:")), shared, file }
    }

    fn total(self) -> u64 {
        self.anonymous.saturating_add(self.shared).saturating_add(self.file)
    }

    /// Combines this value with two others, kind by kind, with the function `of`.
    fn combine(self, other: Self, third: Self, of: impl Fn(u64, u64, u64) -> u64) -> Self {
        Self {
            anonymous: of(self.anonymous, other.anonymous, third.anonymous),
            shared: of(self.shared, other.shared, third.shared),
            file: of(self.file, other.file, third.file),
        }
    }
}

/// A process as one reading saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenProcess {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// Start time of the process, which distinguishes it from an earlier process with the same id.
    pub(super) started: u64,
    pub(super) resident: ResidentMemory,
}

/// The last known share of one process.
#[derive(Debug, Clone, Copy)]
struct KnownShare {
    started: u64,
    /// Resident memory of the process when its share was read.
    resident: ResidentMemory,
    /// The share that was read; `None` if the kernel does not report it.
    share: Option<ResidentMemory>,
    /// Number of the reading in which the share was read.
    reading_number: u64,
}

impl KnownShare {
    /// Whether more than an eighth of the process's anonymous or shared pages also belong to other processes.
    fn is_shared(&self) -> bool {
        let of = |all: u64, part: u64| part < all - all / 8;
        self.share.is_some_and(|part| {
            of(self.resident.anonymous, part.anonymous) || of(self.resident.shared, part.shared)
        })
    }

    /// The share of the process with `resident` memory, estimated from the share that was read last; `None` if the kernel did not report
    /// that share.
    fn share_now(&self, resident: ResidentMemory) -> Option<ResidentMemory> {
        let of = |now: u64, then: u64, part: u64| match now.checked_sub(then) {
            Some(grown) => part.saturating_add(grown),
            None => {
                u64::try_from(u128::from(part) * u128::from(now) / u128::from(then.max(1))).unwrap_or(part)
            }
        };
        self.share.map(|part| resident.combine(self.resident, part, of))
    }
}

/// The shares of the processes of one build.
#[derive(Debug)]
pub(super) struct SharedPages {
    proc: PathBuf,
    known_shares: HashMap<i32, KnownShare>,
    reading_number: u64,
    reading_time: Duration,
}

impl SharedPages {
    pub(super) fn new(proc: PathBuf) -> Self {
        Self { proc, known_shares: HashMap::new(), reading_number: 0, reading_time: READING_TIME }
    }

    /// The share of each process in `seen`, in the same order; `None` if the kernel does not report it, and for a small process.
    pub(super) fn shares(&mut self, seen: &[SeenProcess]) -> Vec<Option<ResidentMemory>> {
        self.reading_number += 1;
        let large: HashMap<i32, &SeenProcess> = seen
            .iter()
            .filter(|process| process.resident.total() >= MIN_ROLLUP_BYTES)
            .map(|process| (process.pid, process))
            .collect();
        let before = self.known_shares.len();
        self.known_shares
            .retain(|pid, known| large.get(pid).is_some_and(|process| process.started == known.started));
        let has_gone = self.known_shares.len() < before;
        self.read_changed(&large, has_gone);
        self.read_in_turn(&large);
        let part = |process: &SeenProcess| self.known_shares.get(&process.pid)?.share_now(process.resident);
        seen.iter().map(part).collect()
    }

    fn read_changed(&mut self, large: &HashMap<i32, &SeenProcess>, has_gone: bool) {
        let new: Vec<&SeenProcess> =
            large.values().filter(|process| !self.known_shares.contains_key(&process.pid)).copied().collect();
        let has_changed = has_gone || !new.is_empty();
        let shared = self.known_shares.iter().filter(|(_, known)| has_changed && known.is_shared());
        let mut due: Vec<i32> = shared.map(|(pid, _)| *pid).collect();
        due.extend(new.iter().flat_map(|process| [process.pid, process.parent]));
        for process in due.iter().filter_map(|pid| large.get(pid)) {
            self.read(process);
        }
    }

    /// Reads the shares that were read longest ago, for as long as [`READING_TIME`] allows.
    fn read_in_turn(&mut self, large: &HashMap<i32, &SeenProcess>) {
        let mut known: Vec<(u64, i32)> =
            self.known_shares.iter().map(|(pid, known)| (known.reading_number, *pid)).collect();
        known.sort_unstable();
        let start = thread_cpu_time();
        for process in known.iter().filter_map(|(_, pid)| large.get(pid)) {
            if thread_cpu_time().saturating_sub(start) >= self.reading_time {
                return;
            }
            self.read(process);
        }
    }

    /// Reads `smaps_rollup` of one process (its part of shared memory), unless that was done in the current round.
    fn read(&mut self, process: &SeenProcess) {
        let SeenProcess { pid, started, resident, .. } = *process;
        let reading = self.reading_number;
        if self.known_shares.get(&pid).is_none_or(|known| known.reading_number < reading) {
            let part = read_rollup(&self.proc.join(pid.to_string()));
            self.known_shares
                .insert(pid, KnownShare { started, resident, share: part, reading_number: reading });
        }
    }
}

fn read_rollup(folder: &Path) -> Option<ResidentMemory> {
    let rollup = kernel::read(&folder.join("smaps_rollup")).ok()??;
    let bytes = |name| kib_field(&rollup, name);
    Some(ResidentMemory {
        anonymous: bytes("Pss_Anon:")?.saturating_add(bytes("SwapPss:").unwrap_or(0)),
        shared: bytes("Pss_Shmem:")?,
        file: bytes("Pss_File:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    const MIB: u64 = 1 << 20;

    /// A process with so many MiB of anonymous memory, of which `part` are its part.
    fn process(fake: &FakeKernel, [pid, parent]: [i32; 2], mib: u64, part: u64) -> SeenProcess {
        let rollup = format!("Pss_Anon: {} kB\nPss_File: 0 kB\nPss_Shmem: 0 kB\n", part << 10);
        fake.write(&format!("/proc/{pid}/smaps_rollup"), &rollup);
        let resident = ResidentMemory { anonymous: mib * MIB, ..ResidentMemory::default() };
        SeenProcess { pid, parent, started: 1, resident }
    }

    /// No time for processes that need not be read.
    fn pages(fake: &FakeKernel) -> SharedPages {
        SharedPages { reading_time: Duration::ZERO, ..SharedPages::new(fake.kernel().path("/proc")) }
    }

    fn sum(pages: &mut SharedPages, seen: &[SeenProcess]) -> u64 {
        pages.shares(seen).into_iter().flatten().map(|part| part.anonymous / MIB).sum()
    }

    #[test]
    fn pages_shared_by_a_fork_count_once() {
        let fake = FakeKernel::new();
        let mut pages = pages(&fake);
        assert_eq!(sum(&mut pages, &[process(&fake, [7, 1], 400, 400)]), 400);
        let two = [process(&fake, [7, 1], 400, 200), process(&fake, [8, 7], 400, 200)];
        assert_eq!(sum(&mut pages, &two), 400, "the parent is read again");
        let three = [7, 8, 9].map(|pid| process(&fake, [pid, if pid == 7 { 1 } else { 7 }], 402, 134));
        assert_eq!(sum(&mut pages, &three), 402, "a brother shares as well");
        assert_eq!(sum(&mut pages, &[process(&fake, [7, 1], 400, 400)]), 400, "and is gone");
    }

    #[test]
    fn an_unchanged_process_is_not_walked_again() {
        let fake = FakeKernel::new();
        let mut pages = pages(&fake);
        let at = |mib| [process(&fake, [7, 1], mib, 300), process(&fake, [8, 1], 100, 100)];
        assert_eq!(sum(&mut pages, &at(300)), 400);
        let grown = at(350);
        fake.remove("/proc/7/smaps_rollup");
        assert_eq!(sum(&mut pages, &grown), 450, "its file is not read");
        let shrunk = at(150);
        fake.remove("/proc/7/smaps_rollup");
        assert_eq!(sum(&mut pages, &shrunk), 250);
    }

    #[test]
    fn every_process_is_reread_and_reused_pids_detected() {
        let fake = FakeKernel::new();
        let mut pages = pages(&fake);
        assert_eq!(sum(&mut pages, &[process(&fake, [7, 1], 300, 300)]), 300);
        let later = process(&fake, [7, 1], 300, 100);
        assert_eq!(sum(&mut pages, &[later]), 300, "there was no time");
        pages.reading_time = Duration::MAX;
        assert_eq!(sum(&mut pages, &[later]), 100);
        pages.reading_time = Duration::ZERO;
        let other = SeenProcess { started: 2, ..process(&fake, [7, 1], 300, 290) };
        assert_eq!(sum(&mut pages, &[other]), 290);
    }
}
