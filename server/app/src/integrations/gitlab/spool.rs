//! Keeps accepted hooks on disk until they are processed, so that a crash loses none.
//!
//! The directory `hooks` beside the store has one file for each hook. NAME is a number in 16
//! hexadecimal digits; it is the same for hooks about the same end of the same job.
//!
//! | file | state | after a crash |
//! |---|---|---|
//! | `NAME.ID.new` | being written | removed at the next start: GitLab got no answer |
//! | `NAME.hook` | to be processed | processed again, which changes nothing that was done |
//! | `NAME.told` | processed; waits for its attempt: until an open one ends, or for an hour | applied again, without asking GitLab |
//!
//! A file is written, synced and renamed, and its directory synced, before GitLab gets the answer.
//! It contains JSON:
//!
//! | field | content |
//! |---|---|
//! | `format` | 1 |
//! | `host` | host of the GitLab that sent the hook, if known |
//! | `delivery` | `Idempotency-Key` of the hook, if it had one |
//! | `hook` | the job hook as GitLab sent it, reduced to the fields that are read, secrets masked |
//! | `by` | the sender: `name`, and `all` or the `projects` that it may report on |
//! | `told` | only in `NAME.told`: `cause` and `unneeded`, from GitLab's answers |
//!
//! A file that is damaged or has another version is removed and logged. Number and bytes of files
//! are bounded; a hook beyond the bounds is accepted without a file, and counted.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use plimsoll_core::domain::ReportedOutcome;
use plimsoll_proto::own_files;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use ulid::Ulid;

use super::{Ended, QUEUE, record::Record};
use crate::runtime::metrics::Metrics;

/// Most files: hooks in the queue, hooks that wait for an unknown attempt, and hooks that wait for
/// an open one.
const FILES: usize = 3 * QUEUE;
/// Most bytes of all files. A file has about 1 KiB, at most 10 KiB.
const BYTES: usize = 64 << 20;
/// Files written at the same time; they share their syncs.
const WRITES_AT_ONCE: usize = 8;
/// The directory with the files of hooks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    dir: Arc<Path>,
    room: Arc<Room>,
    turns: Arc<Semaphore>,
}

/// A hook in the directory when the server started.
#[derive(Debug)]
pub(crate) struct Found {
    pub(super) ended: Box<Ended>,
    pub(super) kept: Kept,
    /// When the hook was processed, if it was: since then it waits for its attempt.
    pub(super) applied_since: Option<SystemTime>,
}

/// A hook with a file.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    pub(super) record: Record,
    bytes: usize,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    used: Mutex<(usize, usize)>,
    metrics: Arc<Metrics>,
}

impl Room {
    /// Reserves space for a file; returns false if there is no space left.
    fn take(&self, bytes: usize) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.0 >= FILES || used.1.saturating_add(bytes) > BYTES {
            return false;
        }
        *used = (used.0 + 1, used.1 + bytes);
        self.metrics.hooks_on_disk.set(i64::try_from(used.0).unwrap_or(i64::MAX));
        true
    }

    fn give_back(&self, bytes: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = (used.0.saturating_sub(1), used.1.saturating_sub(bytes));
        self.metrics.hooks_on_disk.set(i64::try_from(used.0).unwrap_or(i64::MAX));
    }
}

impl Spool {
    /// Checks that a server can keep hooks in this data directory.
    ///
    /// # Errors
    /// The path exists and is not a directory.
    pub(crate) fn check(data_dir: &Path) -> io::Result<()> {
        let dir = data_dir.join(DIR);
        match fs::symlink_metadata(&dir) {
            Ok(found) if found.is_dir() => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // a link is refused too, because files must not be written through a link
            _ => {}
        }
        let text = format!("{} is no directory; move it away", dir.display());
        Err(io::Error::new(io::ErrorKind::NotADirectory, text))
    }

    /// Opens the directory beside the store, and reads the hooks in it, oldest first.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub(crate) fn open(data_dir: &Path, metrics: &Arc<Metrics>) -> io::Result<(Self, Vec<Found>)> {
        Self::check(data_dir)?;
        let dir = data_dir.join(DIR);
        own_files::make_dir(&dir)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
        File::open(data_dir)?.sync_all()?;
        let room = Arc::new(Room { used: Mutex::default(), metrics: Arc::clone(metrics) });
        metrics.hooks_on_disk_max.set(i64::try_from(FILES).unwrap_or(i64::MAX));
        let turns = Arc::new(Semaphore::new(WRITES_AT_ONCE));
        let spool = Self { dir: dir.into(), room, turns };
        let mut files = Vec::new();
        for entry in fs::read_dir(&spool.dir)? {
            let path = entry?.path();
            let written = fs::symlink_metadata(&path)?.modified()?;
            files.push((written, path));
        }
        files.sort();
        let found: Vec<Found> = files.into_iter().filter_map(|(at, path)| spool.find(at, path)).collect();
        if !found.is_empty() {
            tracing::info!(hooks = found.len(), "job hooks of before the start are worked on");
        }
        Ok((spool, found))
    }

    fn find(&self, written: SystemTime, path: PathBuf) -> Option<Found> {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_applied = kind == APPLIED;
        let was_applied = !is_applied && path.with_extension(APPLIED).try_exists().unwrap_or(false);
        if kind == NEW || (kind == HOOK && was_applied) {
            forget(&path);
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        let record = serde_json::from_slice::<Record>(&bytes).ok();
        let ended = record.as_ref().and_then(Record::ended).filter(|_| is_applied || kind == HOOK);
        let Some((record, ended)) = record.zip(ended) else {
            tracing::error!(path = %path.display(), "removed a file that is no job hook");
            forget(&path);
            return None;
        };
        // a hook beyond the bounds is not processed; its file stays
        let (bytes, room) = (bytes.len(), Arc::clone(&self.room));
        let applied_since = is_applied.then_some(written);
        room.take(bytes).then_some(Found { ended, kept: Kept { path, record, bytes, room }, applied_since })
    }

    /// Waits until a file may be written. `None` never occurs, because the semaphore is never
    /// closed.
    pub(super) async fn write_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Writes a hook to disk. Returns `None` if the spool is full or the write fails. Blocks until
    /// the disk has written.
    pub(super) fn keep(&self, name: u64, record: Record) -> Option<Kept> {
        let path = self.dir.join(format!("{name:016x}.{HOOK}"));
        let bytes = serde_json::to_vec(&record).ok()?;
        if !self.room.take(bytes.len()) {
            tracing::warn!("job hooks are not kept on disk: too many wait already");
            return None;
        }
        let kept = Kept { path, record, bytes: bytes.len(), room: Arc::clone(&self.room) };
        match write(&kept.path, &bytes) {
            Ok(()) => Some(kept),
            Err(error) => {
                tracing::warn!(%error, "a job hook cannot be kept on disk");
                kept.forget();
                None
            }
        }
    }
}

/// Name of the directory in the data directory.
const DIR: &str = "hooks";
const NEW: &str = "new";
const HOOK: &str = "hook";
const APPLIED: &str = "told";

impl Kept {
    /// Removes the file of a hook that was processed or has waited long enough.
    pub(super) fn forget(self) {
        forget(&self.path);
        self.room.give_back(self.bytes);
    }

    /// Marks a hook as processed and waiting for its attempt. If that fails, the hook is processed
    /// again after the next start, which is harmless.
    pub(super) fn tell(mut self, reported: &ReportedOutcome) -> Self {
        self.record.tell(reported);
        let path = self.path.with_extension(APPLIED);
        if self.path == path {
            return self;
        }
        let written = serde_json::to_vec(&self.record).map_err(io::Error::from);
        match written.and_then(|bytes| write(&path, &bytes)) {
            Ok(()) => {
                forget(&self.path);
                self.path = path;
            }
            Err(error) => tracing::warn!(%error, "cannot mark a job hook on disk as applied"),
        }
        self
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // a unique temporary name, because GitLab may send the same hook twice at the same time
    let new = path.with_extension(format!("{}.{NEW}", Ulid::new()));
    own_files::replace(&new, path, bytes)
}

/// Removes a file. If that fails, the hook is processed again after the next start.
fn forget(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a job hook's file cannot be removed");
    }
}
