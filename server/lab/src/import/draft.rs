//! Turns the texts of one row into a summary.

use plimsoll_core::domain::{
    AttemptId, Bytes, Cause, CpuMicros, Exit, Fnv, Key, Millis, OpeningRecord, Outcome, Resources, Summary,
};

use super::refusals::RowRefusal;

/// One recorded attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Line of the file with the row, counted from 1.
    pub line: u64,
    /// The attempt's summary, with the fields that the file has. `started_unix_ms` is 0 if the file has no
    /// times.
    pub summary: Summary,
    /// Whether the file has the time of the attempt.
    pub timed: bool,
    /// For a row without an id: what its id is made from.
    pub(super) unnamed_rows: Option<UnnamedRows>,
}

/// Identifies a row that has no id, by its texts, so that its place in the file does not matter. Rows with
/// equal texts are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnnamedRows {
    /// Fingerprint of the row's texts.
    pub(super) fingerprint: u64,
    /// Number of this row among those with equal texts, from 1.
    pub(super) number: u64,
}

impl UnnamedRows {
    pub(super) fn id(self) -> Result<AttemptId, String> {
        AttemptId::parse(&format!("row-{:016x}-{}", self.fingerprint, self.number))
    }
}

/// How a recorded attempt ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RecordedEnd {
    #[default]
    Success,
    Failed,
    Stopped(Cause),
}

/// A row that was read, or why it was refused; `None` at the end of the file.
pub(super) type ReadRow = Option<Result<Record, RowRefusal>>;

/// The fields of a row that were read so far.
#[derive(Debug, Default)]
pub(super) struct RecordDraft {
    pub(super) attempt: Option<AttemptId>,
    pub(super) key: Key,
    pub(super) submitted_ms: Option<u64>,
    pub(super) wall: Option<Millis>,
    pub(super) peak: Option<Bytes>,
    pub(super) mean: Option<Bytes>,
    pub(super) cpu: CpuMicros,
    pub(super) jobs: Option<u32>,
    pub(super) cores: Option<u32>,
    pub(super) requested: Option<Bytes>,
    pub(super) outcome: RecordedEnd,
    pub(super) untrusted: bool,
    /// Pool in which the attempt ran; empty if that is not known.
    pub(super) pool: String,
}

impl RecordDraft {
    pub(super) fn set_attempt(&mut self, text: &str) -> Result<(), String> {
        self.attempt = Some(AttemptId::parse(text)?);
        Ok(())
    }

    /// Turns the fields that were read into a record.
    pub(super) fn finish(mut self, line: u64, print: &Fingerprint) -> Result<Record, RowRefusal> {
        let refuse = |column, reason: String| RowRefusal { line, column, reason };
        let (Some(wall), Some(peak)) = (self.wall, self.peak) else {
            return Err(refuse("peak_bytes", "is missing".to_owned()));
        };
        if let Some(mean) = self.mean.filter(|mean| *mean > peak) {
            return Err(refuse("mean_bytes", format!("{} is above peak_bytes, {}", mean.0, peak.0)));
        }
        let named = self.attempt.take();
        let unnamed = named.is_none().then(|| UnnamedRows { fingerprint: print.0.value(), number: 1 });
        let attempt = match (named, unnamed) {
            (None, Some(unnamed)) => unnamed.id(),
            (named, _) => named.ok_or_else(|| "is missing".to_owned()),
        };
        let attempt = attempt.map_err(|reason| refuse("attempt", reason))?;
        self.key.hints.build_jobs = self.jobs.or(self.cores);
        let (outcome, exit, cause) = match self.outcome {
            RecordedEnd::Success => (Outcome::Succeeded, Some(Exit::Code(0)), None),
            RecordedEnd::Failed => (Outcome::Failed, None, Some(Cause::Unknown)),
            RecordedEnd::Stopped(cause) => (Outcome::Failed, None, Some(cause)),
        };
        let summary = Summary {
            resources: Resources { memory_request: self.requested, ..Resources::default() },
            started_unix_ms: self.submitted_ms.unwrap_or(0),
            wall,
            cpu: self.cpu,
            need_peak: peak,
            need_mean: self.mean.unwrap_or_default(),
            memory_peak: peak,
            outcome,
            exit,
            cause,
            censored: matches!(self.outcome, RecordedEnd::Stopped(_)),
            opening: OpeningRecord { untrusted: self.untrusted, pool: self.pool, ..OpeningRecord::default() },
            ..Summary::recorded(attempt, self.key)
        };
        Ok(Record { line, timed: self.submitted_ms.is_some(), summary, unnamed_rows: unnamed })
    }
}

/// Fingerprint of a row's texts, for rows without an id. Ids in stores are made from it, so it must not change:
/// a new column goes to the end of the table, and counts only in rows where it is not empty.
#[derive(Debug, Default)]
pub(super) struct Fingerprint(Fnv);

impl Fingerprint {
    pub(super) fn add(&mut self, text: &str) {
        self.0 = self.0.with(text.bytes().chain([0]));
    }
}
