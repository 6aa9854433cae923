//! Writes the rows of a file as history into a data directory.
//!
//! The file is read twice. The first time it is read to its end, so that a truncated file writes nothing. The
//! second time each row is added to a commit, which is on disk when the store returns. After a crash between
//! two commits the store has some of the rows. If the import is repeated, it adds the others: a row has the
//! same id each time, and an attempt that exists is not changed.

use std::{io, path::Path};

use plimsoll_core::{domain::Summary, mask};
use plimsoll_proto::figures::counted;
use plimsoll_store::{self as store, Batch, Store};

use super::{
    draft::Record,
    reader::Reader,
    refusals::Refusals,
    source::FileError,
    stored::{CrowdedKeys, ProjectOfStored, StoredAttempts},
};

/// Writes in one commit, which takes one sync of the store.
const OPERATIONS_PER_COMMIT: usize = 256;

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows that were added to the history.
    pub added: u64,
    /// Rows with an attempt that was in the store before.
    pub known: u64,
    /// Rows, added or known, with an attempt that has no project.
    pub without_project: u64,
    /// Attempts of an earlier import that had no project, and have got one from this import.
    pub projects_filled: u64,
    /// Attempts in the store with another project than the row. They keep their project.
    pub of_other_project: u64,
    /// Keys that have more rows than a prediction reads attempts of one key
    /// ([`History::PER_RUNG`](plimsoll_core::domain::History::PER_RUNG)).
    pub crowded_keys: u64,
    /// Rows that were refused.
    pub refusals: Refusals,
}

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened, or its format is not supported.
    #[error(transparent)]
    File(#[from] FileError),
    /// Data that was packed in memory cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] io::Error),
    /// The store cannot be read.
    #[error("data_dir: {0}")]
    Store(#[from] store::StoreError),
    /// A row cannot be stored as a record.
    #[error("{unit} {line}: {reason}")]
    Row {
        /// Name of a row for the message, for example `line`.
        unit: &'static str,
        /// Number of the row.
        line: u64,
        /// Why the row cannot be stored, in words.
        reason: String,
    },
    /// The store refused a commit.
    #[error("stopped after {}: {reason}; the same command again adds the rest", counted(*added, "row"))]
    Commit {
        /// Number of rows that were written before.
        added: u64,
        /// The store's reason.
        reason: String,
    },
}

/// Values for what the file does not contain.
#[derive(Debug, Clone, Default)]
pub struct RecordDefaults {
    /// Project for rows without one.
    pub project: String,
    /// The current time, milliseconds since 1970. Rows without a time are taken to have ended up to this time,
    /// in the order of the file.
    pub now_unix_ms: u64,
}

/// Adds the rows of a file to the history in `store`. `on_progress` gets the share of the work that is done.
/// Errors: the file cannot be read to its end (then nothing is written), or the store fails.
pub async fn commit(
    path: &Path,
    store: &Store,
    unsaid: &RecordDefaults,
    mut on_progress: impl FnMut(f64),
) -> Result<ImportReport, ImportError> {
    let rows = count_sensible_rows(path, |share| on_progress(share / 2.0))?;
    let mut adding = ImportWriter::begin(store).await?;
    let mut reader = Reader::open(path)?;
    let mut number = 0;
    while let Some(mut record) = reader.next_record()? {
        number += 1;
        let known = adding.stored.knows(&record);
        if record.summary.key.project.is_empty() {
            record.summary.key.project.clone_from(&unsaid.project);
        }
        if !record.timed {
            // rows without a time get ends one millisecond apart, the last one now, so that their order stays
            // that of the file
            let ended = unsaid.now_unix_ms.saturating_sub(u64::saturating_sub(rows, number));
            record.summary.started_unix_ms = ended.saturating_sub(record.summary.wall.0);
        }
        if adding.take(record, known, reader.refusals.unit).await? {
            on_progress(0.5 + reader.position.share() / 2.0);
        }
    }
    adding.finish(reader.refusals).await
}

/// Adds attempts of CI jobs to the history in `store`, except for jobs that have an attempt there.
/// Errors: A record cannot be read, or the store fails.
pub async fn commit_records(
    records: impl IntoIterator<Item = io::Result<Record>>,
    refusals: Refusals,
    store: &Store,
) -> Result<ImportReport, ImportError> {
    let mut adding = ImportWriter::begin(store).await?;
    for record in records {
        let record = record?;
        let known = adding.stored.knows_job(&record.summary.attempt);
        adding.take(record, known, refusals.unit).await?;
    }
    adding.finish(refusals).await
}

/// Writes attempts into a store, in batches.
#[derive(Debug)]
struct ImportWriter<'s> {
    store: &'s Store,
    stored: StoredAttempts,
    keys: CrowdedKeys,
    batch: Batch,
    /// Number of new attempts in the batch.
    waiting: u64,
    report: ImportReport,
}

impl<'s> ImportWriter<'s> {
    async fn begin(store: &'s Store) -> Result<Self, ImportError> {
        let mut there = StoredAttempts::default();
        store::load(store, |summary: Summary| there.add(&summary)).await?;
        let (keys, batch, report) = (CrowdedKeys::default(), Batch::default(), ImportReport::default());
        Ok(Self { store, stored: there, keys, batch, waiting: 0, report })
    }

    /// Adds an attempt. If the store has it without a project, it gets the project of the row. Returns whether
    /// a commit was written.
    async fn take(&mut self, record: Record, known: bool, unit: &'static str) -> Result<bool, ImportError> {
        self.keys.count(&record.summary.key);
        if known {
            self.report.known += 1;
            match self.stored.project_of(&record.summary) {
                ProjectOfStored::Same => {}
                ProjectOfStored::Missing => self.report.without_project += 1,
                ProjectOfStored::Other => self.report.of_other_project += 1,
                ProjectOfStored::Fillable => self.fill_project(&record.summary).await?,
            }
        } else {
            self.add(record, unit)?;
        }
        let is_full = self.batch.operations() >= OPERATIONS_PER_COMMIT;
        if is_full {
            self.write().await?;
        }
        Ok(is_full)
    }

    fn add(&mut self, record: Record, unit: &'static str) -> Result<(), ImportError> {
        let Record { line, mut summary, .. } = record;
        self.report.without_project += u64::from(summary.key.project.is_empty());
        mask::key(&mut summary.key);
        mask::phases(&mut summary.phases);
        let row = |error: store::RecordError| ImportError::Row { unit, line, reason: error.to_string() };
        store::put(&mut self.batch, &summary).map_err(row)?;
        self.waiting += 1;
        Ok(())
    }

    /// Stores an attempt again, with the project of its row.
    async fn fill_project(&mut self, row: &Summary) -> Result<(), ImportError> {
        let Some(mut stored) = store::read_summary(self.store, &row.attempt).await? else { return Ok(()) };
        stored.key.project.clone_from(&row.key.project);
        mask::key(&mut stored.key);
        let added = self.report.added;
        let failed = |error: store::RecordError| ImportError::Commit { added, reason: error.to_string() };
        store::put(&mut self.batch, &stored).map_err(failed)?;
        self.report.projects_filled += 1;
        Ok(())
    }

    async fn write(&mut self) -> Result<(), ImportError> {
        if self.batch.operations() == 0 {
            return Ok(());
        }
        let added = self.report.added;
        let failed = |error: store::CommitError| ImportError::Commit { added, reason: error.to_string() };
        self.store.commit(std::mem::take(&mut self.batch)).await.map_err(failed)?;
        self.report.added += std::mem::take(&mut self.waiting);
        Ok(())
    }

    async fn finish(mut self, refusals: Refusals) -> Result<ImportReport, ImportError> {
        self.write().await?;
        Ok(ImportReport { refusals, crowded_keys: self.keys.crowded(), ..self.report })
    }
}

/// The refusals, if the file has rows and every one of them is refused.
/// Errors: the file cannot be read up to its first valid row.
pub fn refusals_if_all(path: &Path) -> Result<Option<Refusals>, FileError> {
    let mut trial = Reader::open(path)?;
    let good = trial.next_record()?.is_some();
    Ok(Some(trial.refusals).filter(|refusals| !good && refusals.count > 0))
}

/// Reads a file to its end, and returns the number of valid rows.
fn count_sensible_rows(path: &Path, mut on_progress: impl FnMut(f64)) -> Result<u64, FileError> {
    let mut trial = Reader::open(path)?;
    let mut rows: u64 = 0;
    while trial.next_record()?.is_some() {
        rows += 1;
        if rows.is_multiple_of(1000) {
            on_progress(trial.position.share());
        }
    }
    Ok(rows)
}
