//! A file becomes history in a data directory.
//!
//! The file is read twice: first to its end, so that one that breaks off writes nothing; then row by row into commits that are
//! on the disk when they return. A crash between two commits leaves a part of the rows; the same import again adds the
//! rest, because ids repeat and an attempt that is there is left as it is.

use std::path::Path;

use plimsoll_core::{domain::Summary, mask};
use plimsoll_proto::figures::counted;
use plimsoll_store::{self as store, Batch, Store};

use super::{
    reader::Reader,
    refusals::Refusals,
    source::FileError,
    stored::{CrowdedKeys, ProjectOfStored, StoredAttempts},
};

/// Operations in one commit: what the store writes with one sync.
const COMMIT: usize = 256;

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows that are history now.
    pub added: u64,
    /// Rows whose attempt was there already.
    pub known: u64,
    /// Rows, added or known, whose attempt is of no project.
    pub without_project: u64,
    /// Known attempts of an earlier import that were of no project, and are of the one that was given now.
    pub filled: u64,
    /// Known attempts of another project than the row says. They keep it.
    pub of_other_project: u64,
    /// Keys with more attempts among the rows than a prediction reads of one key ([`History::PER_RUNG`](plimsoll_core::domain::History::PER_RUNG)).
    pub crowded_keys: u64,
    /// Rows that were not taken.
    pub refusals: Refusals,
}

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be read.
    #[error("data_dir: {0}")]
    Store(#[from] store::StoreError),
    /// A row has no stored form.
    #[error("{unit} {line}: {reason}")]
    Row {
        /// What is counted.
        unit: &'static str,
        /// The line.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The store did not take a commit.
    #[error("stopped after {}: {reason}; the same command again adds the rest", counted(*added, "row"))]
    Commit {
        /// Rows that are on the disk.
        added: u64,
        /// Why.
        reason: String,
    },
}

/// What the file does not say.
#[derive(Debug, Clone, Default)]
pub struct RecordDefaults {
    /// The project of rows that name none.
    pub project: String,
    /// The host of the CI system whose jobs a database of Gantry names by their numbers; empty if none is given.
    pub host: String,
    /// Now, milliseconds since 1970: the end of rows without a time, in the order of the file.
    pub now_unix_ms: u64,
}

/// Adds the rows of a file to the history in `store`. `tell` hears how much of both readings is done.
///
/// # Errors
/// The file cannot be read to its end (then nothing is written), or the store fails.
pub async fn commit(
    path: &Path,
    store: &Store,
    unsaid: &RecordDefaults,
    mut tell: impl FnMut(f64),
) -> Result<ImportReport, ImportError> {
    let rows = try_all(path, |share| tell(share / 2.0))?;
    let mut there = StoredAttempts::default();
    store::load_summaries(store, |summary: Summary| there.add(&summary)).await?;
    let (mut imported, mut keys) = (ImportReport::default(), CrowdedKeys::default());
    let mut reader = Reader::open(path)?;
    let (mut batch, mut waiting) = (Batch::default(), 0);
    let mut number = 0;
    while let Some(mut record) = reader.next_record()? {
        number += 1;
        let known = if reader.names_jobs() {
            there.knows_job(&mut record.summary.attempt, &unsaid.host)
        } else {
            there.knows(&record)
        };
        if record.summary.key.project.is_empty() {
            record.summary.key.project.clone_from(&unsaid.project);
        }
        keys.count(&record.summary.key);
        if known {
            imported.known += 1;
            match there.project_of(&record.summary) {
                ProjectOfStored::Same => {}
                ProjectOfStored::Missing => imported.without_project += 1,
                ProjectOfStored::Other => imported.of_other_project += 1,
                ProjectOfStored::Fillable => {
                    imported.filled += fill(store, &mut batch, &record.summary).await?
                }
            }
            if batch.operations() >= COMMIT {
                write(store, &mut batch, &mut waiting, &mut imported).await?;
            }
            continue;
        }
        imported.without_project += u64::from(record.summary.key.project.is_empty());
        if !record.timed {
            // a millisecond apart, the last row now: sorted by their end they have the order of the file
            let ended = unsaid.now_unix_ms.saturating_sub(u64::saturating_sub(rows, number));
            record.summary.started_unix_ms = ended.saturating_sub(record.summary.wall.0);
        }
        let row = |error: store::RecordError| ImportError::Row {
            unit: reader.refusals.unit,
            line: record.line,
            reason: error.to_string(),
        };
        mask::key(&mut record.summary.key);
        mask::phases(&mut record.summary.phases);
        store::put_summary(&mut batch, &record.summary).map_err(row)?;
        waiting += 1;
        if batch.operations() >= COMMIT {
            write(store, &mut batch, &mut waiting, &mut imported).await?;
            tell(0.5 + reader.place.share() / 2.0);
        }
    }
    write(store, &mut batch, &mut waiting, &mut imported).await?;
    imported.crowded_keys = keys.crowded();
    imported.refusals = reader.refusals;
    Ok(imported)
}

/// Gives a stored attempt of no project the one of its row. Gives how many were changed.
async fn fill(store: &Store, batch: &mut Batch, row: &Summary) -> Result<u64, ImportError> {
    let Some(mut stored) = store::read_summary(store, &row.attempt).await? else { return Ok(0) };
    stored.key.project.clone_from(&row.key.project);
    mask::key(&mut stored.key);
    let failed = |error: store::RecordError| ImportError::Commit { added: 0, reason: error.to_string() };
    store::put_summary(batch, &stored).map_err(failed)?;
    Ok(1)
}

/// The refusals of a file that has rows, and of which every row is refused.
///
/// # Errors
/// The file cannot be read up to its first good row.
pub fn refused_whole(path: &Path) -> Result<Option<Refusals>, FileError> {
    let mut trial = Reader::open(path)?;
    let good = trial.next_record()?.is_some();
    Ok(Some(trial.refusals).filter(|refusals| !good && refusals.count > 0))
}

/// Reads a file to its end and says how many of its rows make sense.
fn try_all(path: &Path, mut tell: impl FnMut(f64)) -> Result<u64, FileError> {
    let mut trial = Reader::open(path)?;
    let mut rows: u64 = 0;
    while trial.next_record()?.is_some() {
        rows += 1;
        if rows.is_multiple_of(1000) {
            tell(trial.place.share());
        }
    }
    Ok(rows)
}

async fn write(
    store: &Store,
    batch: &mut Batch,
    waiting: &mut u64,
    imported: &mut ImportReport,
) -> Result<(), ImportError> {
    if batch.operations() == 0 {
        return Ok(());
    }
    let failed =
        |error: store::CommitError| ImportError::Commit { added: imported.added, reason: error.to_string() };
    store.commit(std::mem::take(batch)).await.map_err(failed)?;
    imported.added += std::mem::take(waiting);
    Ok(())
}
