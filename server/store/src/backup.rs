//! Backup and restore: an archive of all entries, from a running store or from one at rest, and back into an empty directory.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

use tokio::task::JoinError;

use super::{
    OfflineStore, OpenError, Snapshot, StoreError, StoreFiller, StoreSettings,
    archive::{ArchiveError, Packer, Unpacker},
};

/// Why a backup could not be made, or not be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read, or changes faster than it is read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// A server would refuse the store.
    #[error("{0}")]
    Refused(String),
    /// The archive cannot be packed, or not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The thread that packs is gone.
    #[error(transparent)]
    Gone(#[from] JoinError),
    /// What should be restored is no archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The directory cannot be filled.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It ended in the middle.
    #[error("{} is half restored and no server opens it; remove it before the next try", dir.display())]
    Half {
        /// The data directory.
        dir: PathBuf,
        /// Why.
        #[source]
        reason: HalfRestored,
    },
}

/// Why a restore ended in its middle.
#[derive(Debug, thiserror::Error)]
pub enum HalfRestored {
    /// The archive is not whole.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The directory cannot be filled.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The archive of a snapshot, piece by piece.
#[derive(Debug)]
pub struct BackupStream {
    snapshot: Snapshot,
    packer: Option<Packer>,
    head: Option<Vec<u8>>,
}

impl BackupStream {
    /// Begins an archive.
    pub fn new(snapshot: Snapshot) -> Self {
        let (packer, head) = Packer::begin(snapshot.identity());
        Self { snapshot, packer: Some(packer), head: Some(head) }
    }

    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    /// The store cannot be read, or changes faster than it is read. The archive is then cut short, without a word: its reader
    /// misses its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        while let Some(mut packer) = self.packer.take() {
            let Some(entries) = self.snapshot.next().await? else {
                return Ok(Some(packer.end()?));
            };
            // to compress takes milliseconds, in which the threads of the runtime answer some hundred questions
            let work = move || packer.take(entries).map(|bytes| (packer, bytes));
            let (packer, bytes) = tokio::task::spawn_blocking(work).await??;
            self.packer = Some(packer);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Writes the archive of a closed store. `tell` gets the bytes of entries so far. Gives the number of entries.
pub fn write(
    store: &OfflineStore,
    out: &mut impl Write,
    mut tell: impl FnMut(u64),
) -> Result<u64, BackupError> {
    if let Some(refused) = store.behind() {
        return Err(BackupError::Refused(refused.to_string()));
    }
    let (mut packer, head) = Packer::begin(store.identity());
    out.write_all(&head)?;
    let mut done = 0;
    let count = store.each(|entry| {
        done += (entry.key.len() + entry.value.value.len()) as u64;
        tell(done);
        let written = packer.take(vec![entry]).and_then(|bytes| out.write_all(&bytes));
        written.map_err(|error| StoreError::Unavailable(format!("the backup cannot be written: {error}")))
    })?;
    out.write_all(&packer.end()?)?;
    Ok(count)
}

/// Makes a data directory from an archive. Gives the number of entries. Where the same archive can be read twice, `before` is it: its
/// keys are laid out first, and the store takes half of the disk.
///
/// # Errors
/// The directory is not empty, or the archive is not whole; what is then in the directory is marked as half restored.
pub fn restore(
    before: Option<impl Read>,
    archive: impl Read,
    settings: &StoreSettings,
) -> Result<u64, BackupError> {
    // a file that is none must not make a directory
    let mut unpacker = Unpacker::begin(archive)?;
    let mut filling = StoreFiller::begin(settings, unpacker.identity)?;
    let half = |reason: HalfRestored| BackupError::Half { dir: settings.dir.clone(), reason };
    if let Some(mut before) = before.map(Unpacker::begin).transpose().map_err(|error| half(error.into()))? {
        while let Some(entries) = before.next_entries().map_err(|error| half(error.into()))? {
            filling.lay_out(&entries).map_err(|error| half(error.into()))?;
        }
    }
    let mut count = 0;
    while let Some(entries) = unpacker.next_entries().map_err(|error| half(error.into()))? {
        for entry in entries {
            count += 1;
            filling.put(entry).map_err(|error| half(error.into()))?;
        }
    }
    filling.end().map_err(|error| half(error.into()))?;
    Ok(count)
}
