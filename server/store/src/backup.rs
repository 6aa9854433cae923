//! Backup and restore: an archive of all entries, from a running or a closed store, and back into an empty directory or database.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

use tokio::task::JoinError;

use super::{
    KeyKind, KeyValue, OfflineStore, OpenError, Snapshot, StoreError, StoreFiller, StoreSettings,
    archive::{ArchiveError, Packer, Unpacker},
};
use super::{
    PostgresError, PostgresSettings,
    postgres::{DatabaseFiller, FillError},
};

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read, or it changes faster than the backup reads it.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// A server would refuse the store.
    #[error("{0}")]
    Refused(String),
    /// The archive cannot be packed or written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The thread that packs the entries ended without a result.
    #[error(transparent)]
    Gone(#[from] JoinError),
    /// The input is not a valid archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The data directory cannot be created or written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database cannot be read or written.
    #[error(transparent)]
    Database(#[from] PostgresError),
    /// All of the store may be in the database, or nothing.
    #[error("{0}")]
    Unconfirmed(String),
    /// The restore stopped before its end; the data directory is incomplete.
    #[error("{} is half restored and no server opens it; remove it before the next try", dir.display())]
    Half {
        /// The incomplete data directory.
        dir: PathBuf,
        /// Why the restore stopped.
        #[source]
        reason: HalfRestored,
    },
}

/// Why a restore stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum HalfRestored {
    /// The archive is incomplete.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The data directory cannot be created or written.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Turns a snapshot into the bytes of an archive, piece by piece.
#[derive(Debug)]
pub struct BackupStream {
    snapshot: Snapshot,
    packer: Option<Packer>,
    archive_head: Option<Vec<u8>>,
}

impl BackupStream {
    /// Begins the archive of a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        let (packer, head) = Packer::begin(snapshot.identity());
        Self { snapshot, packer: Some(packer), archive_head: Some(head) }
    }

    /// Returns the next bytes of the archive, never empty; `None` at the end.
    /// Errors: the store cannot be read, or it changes faster than the backup reads it. The archive then lacks its last frame, so a restore
    /// reports that it is cut short.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        if let Some(head) = self.archive_head.take() {
            return Ok(Some(head));
        }
        while let Some(mut packer) = self.packer.take() {
            let Some(entries) = self.snapshot.next().await? else {
                return Ok(Some(packer.end()?));
            };
            // compression takes milliseconds, in which the runtime's threads answer some hundred requests
            let work = move || packer.add_entries(entries).map(|bytes| (packer, bytes));
            let (packer, bytes) = tokio::task::spawn_blocking(work).await??;
            self.packer = Some(packer);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Writes the archive of a store that no server has open. `on_progress` gets the bytes of keys and values written so
/// far. Returns the number of entries.
pub fn write(
    store: &OfflineStore,
    out: &mut impl Write,
    mut on_progress: impl FnMut(u64),
) -> Result<u64, BackupError> {
    if let Some(refused) = store.server_refusal() {
        return Err(BackupError::Refused(refused.to_string()));
    }
    let (mut packer, head) = Packer::begin(store.identity());
    out.write_all(&head)?;
    let mut done = 0;
    let count = store.each_entry(|entry| {
        done += (entry.key.len() + entry.value.value.len()) as u64;
        on_progress(done);
        let written = packer.add_entries(vec![entry]).and_then(|bytes| out.write_all(&bytes));
        written.map_err(|error| StoreError::Unavailable(format!("the backup cannot be written: {error}")))
    })?;
    out.write_all(&packer.end()?)?;
    Ok(count)
}

/// Writes the archive of a snapshot that is read by nothing else. `on_progress` gets the bytes of keys and values written so far. Returns the
/// number of entries.
/// Errors: the store cannot be read, or `out` not be written.
pub async fn write_snapshot(
    mut snapshot: Snapshot,
    out: &mut impl Write,
    mut on_progress: impl FnMut(u64),
) -> Result<u64, BackupError> {
    let (mut packer, head) = Packer::begin(snapshot.identity());
    out.write_all(&head)?;
    let (mut bytes, mut count) = (0, 0);
    while let Some(entries) = snapshot.next().await? {
        count += entries.len() as u64;
        bytes += entries.iter().map(|entry| (entry.key.len() + entry.value.value.len()) as u64).sum::<u64>();
        out.write_all(&packer.add_entries(entries)?)?;
        on_progress(bytes);
    }
    out.write_all(&packer.end()?)?;
    Ok(count)
}

/// What of a backup is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreScope {
    /// All of it.
    All,
    /// All but open tickets, and what was taken for them at servers upstream.
    WithoutTickets,
}

impl RestoreScope {
    fn includes(self, key: &[u8]) -> bool {
        let of_tickets = [KeyKind::Ticket, KeyKind::UpstreamServer, KeyKind::UpstreamTicket];
        self == Self::All || KeyKind::of(key).is_none_or(|kind| !of_tickets.contains(&kind))
    }
}

/// What was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoredEntries {
    /// Number of all entries.
    pub entries: u64,
    /// Number of tickets at servers upstream.
    pub upstream_tickets: u64,
}

/// Creates a data directory from an archive. If the archive can be read twice, `before` is a second reader of it: all keys are written
/// before the values, which halves the store's size on disk.
/// Errors: the directory is not empty, or the archive is incomplete; the directory is then marked as half restored.
pub fn restore(
    before: Option<impl Read>,
    archive: impl Read,
    settings: &StoreSettings,
    scope: RestoreScope,
) -> Result<RestoredEntries, BackupError> {
    // check the archive first: an invalid file must not create a directory
    let mut unpacker = Unpacker::begin(archive)?;
    let mut filling = StoreFiller::begin(settings, unpacker.identity)?;
    let half = |reason: HalfRestored| BackupError::Half { dir: settings.dir.clone(), reason };
    if let Some(mut before) = before.map(Unpacker::begin).transpose().map_err(|error| half(error.into()))? {
        while let Some(entries) = before.next_entries().map_err(|error| half(error.into()))? {
            let included = entries.iter().filter(|entry| scope.includes(&entry.key));
            filling.lay_out(included).map_err(|error| half(error.into()))?;
        }
    }
    let restored = fill(&mut unpacker, scope, |entry| filling.put(entry).map_err(HalfRestored::from));
    let restored = restored.map_err(half)?;
    filling.end().map_err(|error| half(error.into()))?;
    Ok(restored)
}

/// Creates a store in a database from an archive, in one transaction. Blocks.
/// Errors: the database has a store, or the archive is incomplete, or the database refuses or is away. It then has nothing of the archive,
/// but for [`BackupError::Unconfirmed`].
pub fn restore_into_database(
    archive: impl Read,
    settings: &PostgresSettings,
    scope: RestoreScope,
) -> Result<RestoredEntries, BackupError> {
    let mut unpacker = Unpacker::begin(archive)?;
    let mut filling = DatabaseFiller::begin(settings, unpacker.identity)?;
    let restored = fill(&mut unpacker, scope, |entry| filling.put(&entry).map_err(BackupError::from))?;
    match filling.end() {
        Ok(()) => Ok(restored),
        Err(FillError::Refused(error)) => Err(error.into()),
        Err(FillError::Unconfirmed(text)) => Err(BackupError::Unconfirmed(text)),
    }
}

/// Passes the entries of an archive to `put`.
fn fill<E: From<ArchiveError>>(
    unpacker: &mut Unpacker<impl Read>,
    scope: RestoreScope,
    mut put: impl FnMut(KeyValue) -> Result<(), E>,
) -> Result<RestoredEntries, E> {
    let mut restored = RestoredEntries::default();
    while let Some(entries) = unpacker.next_entries()? {
        for entry in entries.into_iter().filter(|entry| scope.includes(&entry.key)) {
            restored.entries += 1;
            // a ticket with a long output has several parts, of which the first one counts
            let is_ticket = KeyKind::of(&entry.key) == Some(KeyKind::UpstreamTicket);
            restored.upstream_tickets += u64::from(is_ticket && entry.key.last() == Some(&0));
            put(entry)?;
        }
    }
    Ok(restored)
}
