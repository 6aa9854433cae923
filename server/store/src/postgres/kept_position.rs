//! How far the database had come when this server last wrote or looked, in a file of the data directory.
//!
//! An old primary, or an old copy of the database, does not know of what came after it. So a server that starts compares the database with
//! this file before it uses it, and a standby notes what it finds in `feed`, where the server that serves writes its position.
//! `FORMAT.md` has the bytes of the file.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use plimsoll_base::own_files;
use ulid::Ulid;

use super::{
    errors::{PostgresError, PostgresResult},
    primary::Primary,
};
use crate::bytes;

/// Size of a slot: a sector of the disk, so that an interrupted write damages one slot alone.
const SLOT_BYTES: usize = 512;
/// Bytes used in a slot: store id, cluster, timeline, epoch, commit, checksum.
const RECORD_BYTES: usize = 16 + 8 + 4 + 8 + 8 + 4;
/// Number of slots, which are written in turn.
const SLOTS: usize = 2;
/// How long a file that could not be written is left alone: each try is a wait of the commits.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// A moment in the history of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabasePosition {
    pub(super) store: Ulid,
    /// Identity of its cluster, and the timeline in it.
    pub(super) cluster: u64,
    pub(super) timeline: u32,
    /// Epoch and number of the last commit.
    pub(super) epoch: u64,
    pub(super) commit: u64,
}

impl DatabasePosition {
    /// The position of the last row of `feed` at this primary.
    pub(super) fn at(primary: &Primary, store: Ulid, (epoch, commit): (i64, u64)) -> Self {
        let cluster = primary.cluster.parse().unwrap_or_default();
        let timeline = u32::from_str_radix(&primary.timeline, 16).unwrap_or_default();
        Self { store, cluster, timeline, epoch: epoch.cast_unsigned(), commit }
    }

    /// A promotion begins a later timeline, with what its standby had. Timelines of two clusters cannot be compared.
    fn is_before(&self, other: &Self) -> bool {
        if self.cluster == other.cluster && self.timeline != other.timeline {
            return self.timeline < other.timeline;
        }
        (self.epoch, self.commit) < (other.epoch, other.commit)
    }

    fn encode(&self) -> Vec<u8> {
        let [cluster, epoch, commit] = [self.cluster, self.epoch, self.commit].map(u64::to_be_bytes);
        let timeline = self.timeline.to_be_bytes();
        let mut slot =
            bytes::with_checksum([&self.store.to_bytes()[..], &cluster, &timeline, &epoch, &commit].concat());
        slot.resize(SLOT_BYTES, 0);
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let filled = slot.get(..RECORD_BYTES)?;
        bytes::checked(filled).ok()?;
        let (store, rest) = filled.split_first_chunk()?;
        let (cluster, rest) = rest.split_first_chunk()?;
        let (timeline, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (commit, _crc) = rest.split_first_chunk()?;
        let [cluster, epoch, commit] = [cluster, epoch, commit].map(|number| u64::from_be_bytes(*number));
        Some(Self {
            store: Ulid::from_bytes(*store),
            cluster,
            timeline: u32::from_be_bytes(*timeline),
            epoch,
            commit,
        })
    }
}

/// The file, or none: then nothing is kept, and nothing refused.
#[derive(Debug, Default)]
pub(super) struct KeptPosition {
    path: Option<PathBuf>,
    state: Mutex<PositionFile>,
}

#[derive(Debug, Default)]
struct PositionFile {
    last: Option<DatabasePosition>,
    /// `None` until the file was made anew.
    file: Option<File>,
    slot: usize,
    /// When it could not be written; `None` once it was.
    failed_at: Option<Instant>,
}

impl KeptPosition {
    /// Reads the file.
    /// Errors: it cannot be read, is a link, or both slots are damaged.
    pub(super) fn read(path: Option<PathBuf>) -> PostgresResult<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let mut read = Vec::new();
        match own_files::open(&path).and_then(|mut file| file.read_to_end(&mut read)) {
            Ok(_bytes) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: Some(path), ..Self::default() });
            }
            Err(error) => return Err(PostgresError::Lasting(format!("{}: {error}", path.display()))),
        }
        let slots = read.chunks(SLOT_BYTES).take(SLOTS).filter_map(DatabasePosition::decode);
        // both slots are of one store, cluster and timeline
        let last = slots.max_by_key(|position| (position.epoch, position.commit)).ok_or_else(|| {
            PostgresError::Lasting(format!(
                "{} is damaged, so an old primary would not be noticed: make sure that store_url leads to the newest one, then remove the \
                 file",
                path.display()
            ))
        })?;
        let state = Mutex::new(PositionFile { last: Some(last), ..PositionFile::default() });
        Ok(Self { path: Some(path), state })
    }

    /// Refuses a database that is older than what was kept, or has another store or none.
    pub(super) fn check(&self, found: Option<&DatabasePosition>) -> PostgresResult<()> {
        let (Some(path), Some(kept)) = (&self.path, self.last()) else { return Ok(()) };
        let file = path.display();
        let DatabasePosition { store, timeline, epoch, commit, .. } = kept;
        let Some(found) = found else {
            return Err(PostgresError::Passing(format!(
                "the database has no store, and this server last used the store {store} (commit {commit}): name its database in store_url, or \
                 restore it. To begin with an empty store, remove {file} on each server"
            )));
        };
        if found.store != store {
            return Err(PostgresError::Passing(format!(
                "the database has another store ({}, and this server last used {store}): name the right one in store_url. To go on with this one, \
                 remove {file} on each server",
                found.store
            )));
        }
        if !found.is_before(&kept) {
            return Ok(());
        }
        Err(PostgresError::Passing(format!(
            "this is an old primary that was replaced, or an old copy of the database (timeline {}, epoch {}, commit {}; this server knows of \
             timeline {timeline}, epoch {epoch}, commit {commit}): stop it, and start the newer one, or make this one its standby. To go on \
             with what is here and lose what is newer, remove {file} on each server",
            found.timeline, found.epoch, found.commit
        )))
    }

    /// Keeps a position that was checked, or written by this server. A new timeline or epoch is on the disk when this returns; commits
    /// are not synced, so a power cut may take the last of them. A file that cannot be written is logged once, and tried again after
    /// [`RETRY_AFTER`].
    pub(super) fn note(&self, found: DatabasePosition) {
        let Some(path) = &self.path else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let last = state.last.replace(found).unwrap_or(found);
        if found.commit < last.commit {
            let lost = last.commit - found.commit;
            tracing::warn!(
                lost,
                "the database was promoted without the last commits that this server knows of"
            );
        }
        let is_kept = last == found && state.file.is_some();
        if is_kept || state.failed_at.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            return;
        }
        let Err(error) = state.write(path, last, found) else {
            state.failed_at = None;
            return;
        };
        state.file = None;
        if state.failed_at.replace(Instant::now()).is_none() {
            tracing::warn!(%error, "the position of the database is not kept, so after a restart an old primary may not be noticed");
        }
    }

    fn last(&self) -> Option<DatabasePosition> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }
}

impl PositionFile {
    /// Writes a later commit than `last` into the next slot; for all else, makes the file anew.
    fn write(&mut self, path: &Path, last: DatabasePosition, position: DatabasePosition) -> io::Result<()> {
        match &self.file {
            Some(file) if (DatabasePosition { commit: position.commit, ..last }) == position => {
                self.slot = (self.slot + 1) % SLOTS;
                file.write_all_at(&position.encode(), (self.slot * SLOT_BYTES) as u64)
            }
            _ => self.begin(path, position),
        }
    }

    /// Makes the file anew, durably, with this position in both slots.
    fn begin(&mut self, path: &Path, position: DatabasePosition) -> io::Result<()> {
        own_files::replace(&path.with_extension("database.new"), path, &position.encode().repeat(SLOTS))?;
        self.file = Some(own_files::open(path)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const NEW: DatabasePosition =
        DatabasePosition { store: Ulid(1), cluster: 7, timeline: 2, epoch: 3, commit: 9 };

    #[test]
    fn an_older_database_is_refused() {
        let (dir, path) = plimsoll_support::temporary::file_name("plimsoll.database");
        let read = || KeptPosition::read(Some(path.clone()));
        read().unwrap().check(None).unwrap();
        let kept = read().unwrap();
        for commit in 7..=NEW.commit {
            kept.note(DatabasePosition { commit, ..NEW });
        }
        let remove = format!("remove {} on each server", path.display());
        for (found, refusal) in [
            (Some(NEW), ""),
            (Some(DatabasePosition { commit: 10, ..NEW }), ""),
            (Some(DatabasePosition { timeline: 3, epoch: 1, commit: 1, ..NEW }), ""),
            (Some(DatabasePosition { cluster: 8, timeline: 1, ..NEW }), ""),
            (Some(DatabasePosition { timeline: 1, epoch: 4, ..NEW }), "old primary"),
            (Some(DatabasePosition { commit: 8, ..NEW }), "old copy"),
            (Some(DatabasePosition { epoch: 2, commit: 10, ..NEW }), "old copy"),
            (Some(DatabasePosition { cluster: 8, commit: 8, ..NEW }), "old copy"),
            (Some(DatabasePosition { store: Ulid(2), ..NEW }), "another store"),
            (None, "has no store"),
        ] {
            let checked = read().unwrap().check(found.as_ref()).err().map(|error| error.to_string());
            let text = checked.clone().unwrap_or_default();
            assert_eq!(checked.is_some(), !refusal.is_empty(), "{found:?}: {text}");
            assert!(text.contains(refusal) && (refusal.is_empty() || text.contains(&remove)), "{text}");
        }
        // a write that was interrupted leaves the position before it
        let whole = fs::read(&path).unwrap();
        let torn = |slots: &[usize]| {
            let mut torn = whole.clone();
            for slot in slots {
                torn[slot * SLOT_BYTES + 20] ^= 1;
            }
            fs::write(&path, torn).unwrap();
            read().map(|kept| kept.last().unwrap().commit).map_err(|error| error.to_string())
        };
        let one = [torn(&[0]).unwrap(), torn(&[1]).unwrap()];
        assert!(one.contains(&8) && one.contains(&9), "{one:?}");
        assert!(torn(&[0, 1]).unwrap_err().contains("is damaged"));
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(read().unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn a_failed_position_file_is_retried_later() {
        let (_dir, path) = plimsoll_support::temporary::file_name("plimsoll.database");
        let kept = KeptPosition::read(Some(path.clone())).unwrap();
        fs::create_dir(&path).unwrap();
        kept.note(NEW);
        fs::remove_dir(&path).unwrap();
        kept.note(DatabasePosition { commit: 10, ..NEW });
        assert!(!path.try_exists().unwrap(), "commits do not try it");
        let at = kept.state.lock().unwrap().failed_at.unwrap();
        kept.state.lock().unwrap().failed_at = at.checked_sub(RETRY_AFTER);
        for commit in [11, 12] {
            kept.note(DatabasePosition { commit, ..NEW });
            let read = KeptPosition::read(Some(path.clone())).unwrap();
            assert_eq!(read.last().unwrap().commit, commit);
        }
    }
}
