//! Keeps the largest process of a build: users ask which file it was that needed so much.

use std::time::Duration;

use plimsoll_proto::v1::LargestProcess;

use super::{ProcessId, ProcessTable, ProcessView, anonymous, programs};
use crate::{clock::milliseconds, kernel};

/// Processes with less are not named: a build's shells and make use that.
const MIN_BYTES: u64 = 8 << 20;
/// Most bytes of a command line that are read.
const MAX_LINE: u64 = 256 * 1024;

/// The largest process so far, and the file that it works on.
#[derive(Debug, Default)]
pub(crate) struct LargestSoFar {
    largest: Option<LargestProcess>,
    /// The process whose command line was read last, its name then, and its file.
    known: Option<(ProcessId, String, Option<String>)>,
    compilers: Option<u32>,
}

impl LargestSoFar {
    /// Looks at the processes at `now`. `is_tight`: the build is near its memory limit, so command lines are not read, because that may
    /// wait for the memory of the process.
    pub(crate) fn add(&mut self, now: Duration, table: &ProcessTable, is_tight: bool) {
        if table.processes.is_empty() {
            return;
        }
        self.compilers = self.compilers.max(Some(table.compilers()));
        let so_far = self.largest.as_ref().map_or(MIN_BYTES, |largest| largest.memory_bytes);
        // anonymous memory is at most what is resident, so most processes need no second look
        let processes = table.processes.values();
        let larger = processes.filter(|process| !process.has_children && process.resident > so_far);
        let sized = larger.filter_map(|process| Some((anonymous(&table.proc, process.id.pid)?, process)));
        let Some((bytes, process)) = sized.max_by_key(|(bytes, process)| (*bytes, process.id)) else {
            return;
        };
        if bytes > so_far {
            let file = self.file_of(process, table, is_tight).unwrap_or_default();
            self.largest = Some(LargestProcess {
                program: process.name.chars().filter(|letter| !letter.is_control()).collect(),
                file,
                memory_bytes: bytes,
                elapsed_ms: milliseconds(now),
            });
        }
    }

    fn file_of(&mut self, process: &ProcessView, table: &ProcessTable, is_tight: bool) -> Option<String> {
        let is_known = |(id, name, _): &&(ProcessId, String, _)| *id == process.id && *name == process.name;
        if let Some((_, _, file)) = self.known.as_ref().filter(is_known) {
            return file.clone();
        }
        if is_tight {
            return None;
        }
        let path = table.proc.join(process.id.pid.to_string()).join("cmdline");
        let line = String::from_utf8_lossy(&kernel::read_regular(&path, MAX_LINE).ok()?).into_owned();
        let file = programs::work_file(&process.name, &line.split('\0').collect::<Vec<_>>());
        self.known = Some((process.id, process.name.clone(), file.clone()));
        file
    }

    /// The largest process, and the most compilers at once, if processes could be seen.
    pub(crate) fn finish(self) -> (Option<LargestProcess>, Option<u32>) {
        (self.largest, self.compilers)
    }
}
