//! Checks and prepares the data directory before the engine opens it: the directory must belong to this program
//! and not be in use, and files that would break the engine are removed.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use plimsoll_base::own_files;

use super::{
    engine::Engine,
    lock::{LOCK_FILE, lock, lock_unwritable},
    marker::{self, Marker, StoreStage, sync_dir},
    open_error::{ENGINE, OpenError},
    small_files, witness,
};

/// Temporary file that tests whether the disk has enough free space.
const PROBE_FILE: &str = "plimsoll.probe";
/// Name of the engine's log file, in the engine's directory.
pub(crate) const LOG_FILE: &str = "db";
/// Directory in which `compact` writes its copy of the engine's files.
const COPY_DIR: &str = "sled.new";
/// Name of the old engine directory while the copy of `compact` takes its place.
const REPLACED_DIR: &str = "sled.old";
/// Directory of the copy that `verify` reads; the engine would change the original files when it opens them.
pub(crate) const LOOK_DIR: &str = "sled.look";
/// Files that a directory may contain and still count as empty: those that this program creates first, and
/// `lost+found`, which file systems put into their root.
const HARMLESS_FILES: [&str; 4] = [LOCK_FILE, marker::NEW_FILE, PROBE_FILE, "lost+found"];
/// Free space that the engine needs to open, besides a new snapshot: two segments of its log, and some space to
/// spare.
pub(crate) const OPEN_ROOM_BYTES: u64 = 2 << 20;

/// A data directory, locked by this process while this value exists.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The locked file; `None` if there is no lock file and this process may not create one.
    _lock: Option<File>,
}

impl Directory {
    /// Checks the data directory, creates it if needed, and locks it; returns it with its marker.
    pub(crate) fn open(path: &Path) -> Result<(Self, Marker), OpenError> {
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(OpenError::NotADirectory { dir: path.to_owned() }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(OpenError::NotADirectory { dir: path.to_owned() });
            }
            Err(error) => return Err(OpenError::io("open", path)(error)),
        }
        // check first: the directory may belong to another program, and then nothing may be written to it
        marker_of(path)?;
        let directory = Self { path: path.to_owned(), _lock: Some(lock(path)?) };
        // check again: another process may have created a store, completely or in part, before it released the
        // lock
        let marker = if let Some(marker) = marker_of(path)? {
            marker
        } else {
            let marker = Marker::new();
            marker.write(path)?;
            marker
        };
        directory.check_engine(&marker)?;
        Ok((directory, marker))
    }

    /// Opens a directory with a store; creates nothing.
    pub(crate) fn open_existing(path: &Path) -> Result<(Self, Marker), OpenError> {
        marker_of_store(path)?;
        Self::open(path)
    }

    /// Opens a directory with a store for reading, even if this process may not write to it. Removes and
    /// renames no file.
    pub(crate) fn open_to_read(path: &Path) -> Result<(Self, Marker), OpenError> {
        let marker = marker_of_store(path)?;
        if marker.state == StoreStage::Filling {
            return Err(OpenError::HalfRestored { dir: path.to_owned() });
        }
        match lock(path) {
            Err(refused) if refused.is_write_refused() => Self::open_unwritable(path),
            lock => Self::check_opened(path, Some(lock?), marker),
        }
    }

    /// Opens a directory in any state to read what is left; changes nothing.
    pub(crate) fn open_damaged(path: &Path) -> Result<Self, OpenError> {
        let found = fs::metadata(path).map_err(OpenError::io("open", path))?;
        if !found.is_dir() {
            return Err(OpenError::NotADirectory { dir: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), _lock: lock_unwritable(path)? })
    }

    /// The engine's log files that exist and are not empty: the log in use, and the log that `compact`
    /// replaced, if a crash left it.
    pub(crate) fn logs(&self) -> impl Iterator<Item = PathBuf> {
        let logs = [ENGINE, REPLACED_DIR].map(|engine| self.path.join(engine).join(LOG_FILE));
        logs.into_iter().filter(|log| fs::metadata(log).is_ok_and(|found| found.is_file() && found.len() > 0))
    }

    /// Opens a directory with a store that this process may not write to; changes nothing. If there is a lock
    /// file, a lock held by another process is respected; without one, no process has ever opened the store.
    pub(crate) fn open_unwritable(path: &Path) -> Result<(Self, Marker), OpenError> {
        let marker = marker_of_store(path)?;
        Self::check_opened(path, lock_unwritable(path)?, marker)
    }

    fn check_opened(path: &Path, lock: Option<File>, marker: Marker) -> Result<(Self, Marker), OpenError> {
        let directory = Self { path: path.to_owned(), _lock: lock };
        directory.check_engine(&marker)?;
        Ok((directory, marker))
    }

    /// Prepares a directory for a store that is about to be filled: until its final marker is written, no
    /// server opens it.
    pub(crate) fn begin_filling(path: &Path, marker: &Marker) -> Result<Self, OpenError> {
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            return Err(OpenError::NotADirectory { dir: path.to_owned() });
        }
        create(path)?;
        if Marker::read(path)?.is_some() {
            return Err(OpenError::Occupied { dir: path.to_owned() });
        }
        check_empty(path)?;
        let directory = Self { path: path.to_owned(), _lock: Some(lock(path)?) };
        marker.write(path)?;
        create_private_directory(&directory.engine())?;
        sync_dir(path)?;
        Ok(directory)
    }

    /// Creates an empty directory for the compact copy of the engine's files.
    pub(crate) fn begin_copy(&self) -> Result<PathBuf, OpenError> {
        let copy = self.path.join(COPY_DIR);
        remove_all(&copy)?;
        create_private_directory(&copy)?;
        Ok(copy)
    }

    /// Whether the copy is smaller than the engine's files; false if unknown.
    pub(crate) fn is_copy_smaller(&self) -> bool {
        let sizes =
            bytes_below(&self.path.join(COPY_DIR)).and_then(|copy| Ok((copy, bytes_below(&self.engine())?)));
        sizes.is_ok_and(|(copy, now)| copy < now)
    }

    /// Removes a copy that is not used.
    pub(crate) fn remove_copy(&self) -> Result<(), OpenError> {
        remove_all(&self.path.join(COPY_DIR))
    }

    /// Replaces the engine's files by a complete and synced copy of them. After a crash either the old files or
    /// the copy are there.
    pub(crate) fn swap_copy(&self) -> Result<(), OpenError> {
        let own = self.path.join(ENGINE);
        let (engine, copy, replaced) =
            (self.engine(), self.path.join(COPY_DIR), self.path.join(REPLACED_DIR));
        sync_dir(&copy)?;
        if engine == own {
            remove_all(&replaced)?;
            fs::rename(&engine, &replaced).map_err(OpenError::io("rename", &engine))?;
            sync_dir(&self.path)?;
        }
        fs::rename(&copy, &own).map_err(OpenError::io("rename", &copy))?;
        sync_dir(&self.path)?;
        remove_all(&replaced)
    }

    /// Removes what crashes and commands left beside the engine's files. The files that `compact` replaced are
    /// removed only if the engine can read everything: otherwise `repair` needs them, because they may contain
    /// what is lost.
    pub(crate) fn tidy(&self, engine: &Engine) -> Result<(), OpenError> {
        remove_all(&self.path.join(LOOK_DIR))?;
        remove_all(&self.path.join(COPY_DIR))?;
        let replaced = self.path.join(REPLACED_DIR);
        if !fs::exists(&replaced).map_err(OpenError::io("look at", &replaced))? {
            return Ok(());
        }
        match engine.each_page(&[], drop) {
            Ok(()) => remove_all(&replaced),
            Err(error) => {
                tracing::warn!(%error, kept = %replaced.display(), "a part of the store cannot be read: plimsoll-server repair looks for it in the files that the last compact replaced");
                Ok(())
            }
        }
    }

    /// The data directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The engine's directory. If a crash interrupted `compact`, it may still have its temporary name.
    pub(crate) fn engine(&self) -> PathBuf {
        let [own, replaced] = [ENGINE, REPLACED_DIR].map(|engine| self.path.join(engine));
        if !own.is_dir() && replaced.is_dir() { replaced } else { own }
    }

    /// Refuses engine files that sled would take for a new store, or would not write safely to disk.
    fn check_engine(&self, marker: &Marker) -> Result<(), OpenError> {
        let engine = self.engine();
        small_files::refuse_links(&engine)?;
        let log = engine.join(LOG_FILE);
        let bytes = fs::metadata(&log).map_or(0, |found| found.len());
        if marker.state == StoreStage::Ready && bytes == 0 {
            let what = format!(
                "{} is missing or empty, after {} commits by {}",
                log.display(),
                marker.commit_sequence,
                marker::MARKER_FILE
            );
            return Err(OpenError::Emptied { dir: self.path.clone(), what });
        }
        let blobs = engine.join("blobs");
        match fs::read_dir(&blobs).map(|mut files| files.next().is_some()) {
            Ok(true) => Err(OpenError::Blobs { path: blobs }),
            _ => Ok(()),
        }
    }

    /// Size of all files of the engine. Files that vanish during the count are 0.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_below(&self.engine()).unwrap_or(0)
    }

    /// Checks that the disk has space for the snapshot that the engine writes when it opens.
    pub(crate) fn probe_room(&self) -> io::Result<()> {
        let files = fs::read_dir(self.engine())?.flatten();
        let snapshots = files.filter(|file| file.file_name().to_string_lossy().starts_with("snap."));
        let largest = snapshots.filter_map(|file| file.metadata().ok()).map(|file| file.len()).max();
        let path = self.path.join(PROBE_FILE);
        let written = own_files::create(&path).and_then(|mut file| {
            io::copy(
                &mut io::repeat(0).take(OPEN_ROOM_BYTES.saturating_add(largest.unwrap_or(0))),
                &mut file,
            )?;
            file.sync_all()
        });
        fs::remove_file(&path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        written
    }
}

/// Removes the engine's snapshots; returns whether there were any.
pub(crate) fn remove_snapshots(engine: &Path) -> io::Result<bool> {
    let mut removed = false;
    for file in fs::read_dir(engine)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("snap.") {
            fs::remove_file(file.path())?;
            removed = true;
        }
    }
    Ok(removed)
}

/// Creates a directory of the store, readable by its owner only, if it does not exist.
pub(crate) fn create_private_directory(path: &Path) -> Result<(), OpenError> {
    own_files::make_dir(path).map_err(OpenError::io("create", path))
}

/// Removes a directory and its content, if it exists.
pub(crate) fn remove_all(path: &Path) -> Result<(), OpenError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Creates a directory and its parents, and syncs each parent directory.
fn create(path: &Path) -> Result<(), OpenError> {
    let made: Vec<&Path> =
        path.ancestors().take_while(|dir| dir.try_exists().is_ok_and(|there| !there)).collect();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(OpenError::io("create", path))?;
    }
    // the operator chose this path, so links in it are followed
    let private = DirBuilder::new().recursive(true).mode(0o700).create(path);
    private.map_err(OpenError::io("create", path))?;
    for above in made.into_iter().filter_map(Path::parent) {
        sync_dir(if above.as_os_str().is_empty() { Path::new(".") } else { above })?;
    }
    Ok(())
}

/// The marker of a directory with a store.
fn marker_of_store(path: &Path) -> Result<Marker, OpenError> {
    let dir = path.to_owned();
    match fs::metadata(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::io("open", path)(error)),
        Ok(found) if !found.is_dir() => Err(OpenError::NotADirectory { dir }),
        _ => match Marker::read(path)? {
            Some(marker) => Ok(marker),
            None if holds_a_store(path) => Err(OpenError::MarkerLost { dir }),
            None => Err(OpenError::Missing { dir }),
        },
    }
}

/// The marker in a directory that a store may be opened in; `None` if a new store can be created there.
fn marker_of(path: &Path) -> Result<Option<Marker>, OpenError> {
    let marker = Marker::read(path)?;
    match &marker {
        Some(marker) if marker.state == StoreStage::Filling => {
            Err(OpenError::HalfRestored { dir: path.to_owned() })
        }
        Some(_) => Ok(marker),
        None => {
            check_empty(path)?;
            marker::refuse_emptied(path)?;
            Ok(None)
        }
    }
}

/// Whether a directory without a marker has an engine directory, and so once had a store.
fn holds_a_store(path: &Path) -> bool {
    let files = [
        Path::new(witness::WITNESS_FILE).to_owned(),
        Path::new(ENGINE).join(LOG_FILE),
        Path::new(REPLACED_DIR).join(LOG_FILE),
    ];
    files.iter().any(|file| path.join(file).is_file())
}

/// Refuses a directory with files of another program, or with a store that has lost its marker.
pub(crate) fn check_empty(path: &Path) -> Result<(), OpenError> {
    for file in fs::read_dir(path).map_err(OpenError::io("list", path))? {
        let name = file.map_err(OpenError::io("list", path))?.file_name();
        let name = name.to_string_lossy();
        if !HARMLESS_FILES.contains(&name.as_ref()) {
            if holds_a_store(path) {
                return Err(OpenError::MarkerLost { dir: path.to_owned() });
            }
            return Err(OpenError::Foreign { dir: path.to_owned(), found: name.into_owned() });
        }
    }
    Ok(())
}

/// Size of all files below a directory. Files that vanish during the count are 0.
/// Errors: A directory cannot be read.
pub fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path())?,
            Ok(meta) => meta.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(bytes)
}
