//! The rows of a file in memory, sorted by time.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
};

use plimsoll_core::domain::{Bytes, CpuMicros, Hints, Key, Millis, Outcome};

use super::policy::{FinishedBuild, PolicyQuestion};
use crate::import::{FileError, Reader, Record, Refusals};

/// One attempt of the file. It takes 96 bytes, so ten million rows take 1 GB, plus each key once.
#[derive(Debug, Clone, Copy)]
pub(super) struct TapeRow {
    key: usize,
    hints: Hints,
    preset: Option<Bytes>,
    /// Start of the attempt, milliseconds since 1970.
    pub(super) start_ms: u64,
    /// Wall time of the attempt.
    pub(super) wall: Millis,
    /// Highest need; for an attempt that was stopped for lack of memory, its memory until then.
    pub(super) peak: Bytes,
    mean: Bytes,
    /// CPU time; 0 if unknown.
    cpu: CpuMicros,
    /// Whether the attempt was stopped for lack of memory.
    pub(super) stopped: bool,
    untrusted: bool,
    /// Position in the file. Rows of the same time are sorted by it, because a stable sort would need more
    /// memory.
    file_order: u32,
}

/// The attempts that can be replayed, sorted by time.
#[derive(Debug, Default)]
pub struct ReplayTape {
    keys: Vec<(Key, u64)>,
    key_numbers: HashMap<u64, Vec<usize>>,
    /// The rows, in order of time.
    pub(super) rows: Vec<TapeRow>,
    /// Whether the file has times; without them, each attempt ends before the next one starts.
    pub(super) timed: bool,
    /// Whether any row has a memory request.
    pub has_presets: bool,
    /// Number of rows that failed for another reason than memory. They are left out, because they do not show
    /// the need.
    pub skipped: u64,
    /// Rows that were refused.
    pub refusals: Refusals,
}

impl ReplayTape {
    /// Reads a file. `on_progress` gets the share of the file that was read, once for every thousand rows.
    pub fn read(mut reader: Reader, mut on_progress: impl FnMut(f64)) -> Result<Self, FileError> {
        let mut tape = Self::default();
        while let Some(record) = reader.next_record()? {
            tape.push(record);
            if tape.rows.len().is_multiple_of(1000) {
                on_progress(reader.position.share());
            }
        }
        tape.refusals = reader.refusals;
        // rows of the same time keep the order of the file
        tape.rows.sort_unstable_by_key(|row| (row.start_ms, row.file_order));
        tape.key_numbers = HashMap::new();
        Ok(tape)
    }

    fn push(&mut self, record: Record) {
        let summary = record.summary;
        self.timed |= record.timed;
        if summary.outcome != Outcome::Succeeded && !summary.censored {
            self.skipped += 1;
            return;
        }
        let hints = summary.key.hints;
        let preset = summary.resources.memory_request;
        self.has_presets |= preset.is_some();
        let key = self.number_of(Key { hints: Hints::default(), ..summary.key });
        self.rows.push(TapeRow {
            key,
            hints,
            preset,
            start_ms: summary.started_unix_ms,
            wall: summary.wall,
            peak: summary.need_peak,
            mean: summary.need_mean,
            cpu: summary.cpu,
            stopped: summary.censored,
            untrusted: summary.opening.untrusted,
            file_order: u32::try_from(self.rows.len()).unwrap_or(u32::MAX),
        });
    }

    fn number_of(&mut self, key: Key) -> usize {
        let numbers = self.key_numbers.entry(hash(&key)).or_default();
        let known =
            numbers.iter().find(|number| self.keys.get(**number).is_some_and(|(there, _)| *there == key));
        if let Some(number) = known {
            return *number;
        }
        numbers.push(self.keys.len());
        let workload = hash(&Key { version: String::new(), ..key.clone() });
        self.keys.push((key, workload));
        self.keys.len() - 1
    }

    /// Sets the memory request of rows that have none.
    pub fn fill_presets(&mut self, preset: Bytes) {
        for row in &mut self.rows {
            row.preset = row.preset.or(Some(preset));
        }
        self.has_presets = true;
    }

    /// What a policy gets about a row: the question before the attempt starts, and the measurements after it
    /// has ended.
    pub(super) fn ask(&self, number: usize, row: &TapeRow) -> (PolicyQuestion, FinishedBuild) {
        let (key, workload) = self.keys.get(row.key).cloned().unwrap_or_default();
        let ask = PolicyQuestion {
            key: Key { hints: row.hints, ..key },
            workload,
            preset: row.preset.map(Bytes::as_f64),
            start_ms: Millis(row.start_ms).as_f64(),
            need: f64::NAN,
        };
        let done = FinishedBuild {
            number: u64::try_from(number).unwrap_or(u64::MAX),
            peak: row.peak.as_f64(),
            mean: row.mean.as_f64(),
            wall_ms: row.wall.as_f64(),
            cpu_usec: row.cpu.0,
            stopped: row.stopped,
            untrusted: row.untrusted,
        };
        (ask, done)
    }
}

fn hash(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    let parts = key.named_texts().map(|(_, text)| text);
    parts.hash(&mut hasher);
    hasher.finish()
}
