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

use super::{EndedJob, QUEUE, record::HookRecord};
use crate::runtime::metrics::Metrics;

/// Most files: hooks in the queue, hooks that wait for an unknown attempt, and hooks that wait for
/// an open one.
const MAX_FILES: usize = 3 * QUEUE;
/// Most bytes of all files. A file has about 1 KiB, at most 10 KiB.
const MAX_BYTES: usize = 64 << 20;
/// Files written at the same time; they share their syncs.
const WRITES_AT_ONCE: usize = 8;
/// The directory with the files of hooks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    dir: Arc<Path>,
    disk_room: Arc<SpoolRoom>,
    write_turns: Arc<Semaphore>,
}

/// A hook in the directory when the server started.
#[derive(Debug)]
pub(crate) struct FoundHook {
    pub(super) ended: Box<EndedJob>,
    pub(super) kept_hook: KeptHook,
    /// When the hook was processed, if it was: since then it waits for its attempt.
    pub(super) applied_since: Option<SystemTime>,
}

/// A hook with a file.
#[derive(Debug)]
pub(super) struct KeptHook {
    path: PathBuf,
    pub(super) record: HookRecord,
    bytes: usize,
    disk_room: Arc<SpoolRoom>,
}

#[derive(Debug)]
struct SpoolRoom {
    used: Mutex<(usize, usize)>,
    metrics: Arc<Metrics>,
}

impl SpoolRoom {
    /// Reserves space for a file; returns false if there is no space left.
    fn reserve(&self, bytes: usize) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.0 >= MAX_FILES || used.1.saturating_add(bytes) > MAX_BYTES {
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
    /// Errors: the path exists and is not a directory.
    pub(crate) fn check(data_dir: &Path) -> io::Result<()> {
        let dir = data_dir.join(HOOKS_DIR);
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
    /// Errors: the directory cannot be created or read.
    pub(crate) fn open(data_dir: &Path, metrics: &Arc<Metrics>) -> io::Result<(Self, Vec<FoundHook>)> {
        Self::check(data_dir)?;
        let dir = data_dir.join(HOOKS_DIR);
        own_files::make_dir(&dir)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
        File::open(data_dir)?.sync_all()?;
        let room = Arc::new(SpoolRoom { used: Mutex::default(), metrics: Arc::clone(metrics) });
        metrics.hooks_on_disk_max.set(i64::try_from(MAX_FILES).unwrap_or(i64::MAX));
        let turns = Arc::new(Semaphore::new(WRITES_AT_ONCE));
        let spool = Self { dir: dir.into(), disk_room: room, write_turns: turns };
        let mut files = Vec::new();
        for entry in fs::read_dir(&spool.dir)? {
            let path = entry?.path();
            let written = fs::symlink_metadata(&path)?.modified()?;
            files.push((written, path));
        }
        files.sort();
        let found: Vec<FoundHook> =
            files.into_iter().filter_map(|(at, path)| spool.read_found(at, path)).collect();
        if !found.is_empty() {
            tracing::info!(hooks = found.len(), "job hooks of before the start are worked on");
        }
        Ok((spool, found))
    }

    fn read_found(&self, written: SystemTime, path: PathBuf) -> Option<FoundHook> {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_applied = kind == APPLIED_SUFFIX;
        let was_applied = !is_applied && path.with_extension(APPLIED_SUFFIX).try_exists().unwrap_or(false);
        if kind == NEW_SUFFIX || (kind == HOOK_SUFFIX && was_applied) {
            remove_path(&path);
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        let record = serde_json::from_slice::<HookRecord>(&bytes).ok();
        let ended = record.as_ref().and_then(HookRecord::ended).filter(|_| is_applied || kind == HOOK_SUFFIX);
        let Some((record, ended)) = record.zip(ended) else {
            tracing::error!(path = %path.display(), "removed a file that is no job hook");
            remove_path(&path);
            return None;
        };
        // a hook beyond the bounds is not processed; its file stays
        let (bytes, room) = (bytes.len(), Arc::clone(&self.disk_room));
        let applied_since = is_applied.then_some(written);
        room.reserve(bytes).then_some(FoundHook {
            ended,
            kept_hook: KeptHook { path, record, bytes, disk_room: room },
            applied_since,
        })
    }

    /// Waits until a file may be written. `None` never occurs, because the semaphore is never
    /// closed.
    pub(super) async fn write_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.write_turns).acquire_owned().await.ok()
    }

    /// Writes a hook to disk. Returns `None` if the spool is full or the write fails. Blocks until
    /// the disk has written.
    pub(super) fn keep(&self, name: u64, record: HookRecord) -> Option<KeptHook> {
        let path = self.dir.join(format!("{name:016x}.{HOOK_SUFFIX}"));
        let bytes = serde_json::to_vec(&record).ok()?;
        if !self.disk_room.reserve(bytes.len()) {
            tracing::warn!("job hooks are not kept on disk: too many wait already");
            return None;
        }
        let kept = KeptHook { path, record, bytes: bytes.len(), disk_room: Arc::clone(&self.disk_room) };
        match write(&kept.path, &bytes) {
            Ok(()) => Some(kept),
            Err(error) => {
                tracing::warn!(%error, "a job hook cannot be kept on disk");
                kept.remove_file();
                None
            }
        }
    }
}

/// Name of the directory in the data directory.
const HOOKS_DIR: &str = "hooks";
const NEW_SUFFIX: &str = "new";
const HOOK_SUFFIX: &str = "hook";
const APPLIED_SUFFIX: &str = "told";

impl KeptHook {
    /// Removes the file of a hook that was processed or has waited long enough.
    pub(super) fn remove_file(self) {
        remove_path(&self.path);
        self.disk_room.give_back(self.bytes);
    }

    /// Marks a hook as processed and waiting for its attempt. If that fails, the hook is processed
    /// again after the next start, which is harmless.
    pub(super) fn mark_applied(mut self, reported: &ReportedOutcome) -> Self {
        self.record.add_answer(reported);
        let path = self.path.with_extension(APPLIED_SUFFIX);
        if self.path == path {
            return self;
        }
        let written = serde_json::to_vec(&self.record).map_err(io::Error::from);
        match written.and_then(|bytes| write(&path, &bytes)) {
            Ok(()) => {
                remove_path(&self.path);
                self.path = path;
            }
            Err(error) => tracing::warn!(%error, "cannot mark a job hook on disk as applied"),
        }
        self
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // a unique temporary name, because GitLab may send the same hook twice at the same time
    let new = path.with_extension(format!("{}.{NEW_SUFFIX}", Ulid::new()));
    own_files::replace(&new, path, bytes)
}

/// Removes a file. If that fails, the hook is processed again after the next start.
fn remove_path(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a job hook's file cannot be removed");
    }
}
