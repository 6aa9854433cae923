//! Reads a store without changing its files: opens a copy of them.
//!
//! The copy is made in the data directory. If that is not writable or has no space, it is made in the directory
//! for temporary files, or in the one that the caller names. The copy is a data directory of its own: only its
//! user may read it, and it is removed after use.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use super::{
    directory::{Directory, LOOK_DIR, OPEN_ROOM_BYTES, bytes_below, create_private_directory, remove_all},
    marker,
    open_error::{ENGINE, OpenError},
    opening::refuse_by_forecast,
    small_files, witness,
};
use crate::{Store, StoreSettings, disk::disk};

/// The copied files, and the data directory that they form.
#[derive(Debug)]
pub(crate) struct CopiedFiles(PathBuf);

impl CopiedFiles {
    /// The engine's directory in the copy.
    pub(crate) fn engine(&self) -> PathBuf {
        self.0.join(ENGINE)
    }
}

impl Drop for CopiedFiles {
    fn drop(&mut self) {
        // sled may still be writing in the background; what remains of a copy in a data directory is removed
        // when the store is next opened
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// A copy of a store that is opened in place of the store. The store itself stays locked while this value
/// exists.
#[derive(Debug)]
pub struct StoreCopy {
    files: CopiedFiles,
    directory: Directory,
    settings: StoreSettings,
}

impl StoreCopy {
    /// Copies the store, into a directory in `scratch` if given.
    /// Errors: there is no store, it is in use, or there is no space for the copy.
    pub fn of(settings: &StoreSettings, scratch: Option<&Path>) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open_to_read(&settings.dir)?;
        refuse_by_forecast(directory.path(), &directory.engine(), &marker)?;
        let look = copy(&directory, &directory.engine(), scratch)?;
        let settings = StoreSettings { dir: look.0.clone(), ..settings.clone() };
        Ok(Self { files: look, directory, settings })
    }

    /// Opens the copy.
    /// Errors: the same errors as for the store itself.
    pub fn open(&self) -> Result<Store, OpenError> {
        Store::open(&self.settings).map_err(|error| error.about(self.directory.path()))
    }

    /// Directory of the copy.
    pub fn path(&self) -> &Path {
        &self.files.0
    }
}

/// Copies the files of a store; those of the engine are taken from the directory `engine`.
pub(crate) fn copy(
    directory: &Directory,
    engine: &Path,
    scratch: Option<&Path>,
) -> Result<CopiedFiles, OpenError> {
    let needed = bytes_below(engine).unwrap_or(0).saturating_add(OPEN_ROOM_BYTES);
    let mut refused = Vec::new();
    for place in copy_places(directory.path(), scratch) {
        let parent = place.parent().unwrap_or(&place);
        let free = disk(parent).map_err(OpenError::io("look at", parent))?.free;
        if free < needed {
            refused.push(format!("{} has {free} free", parent.display()));
            continue;
        }
        match copy_to(directory, engine, place.clone()) {
            Err(error) if error.is_write_refused() && scratch.is_none() => {
                refused.push(format!("{} cannot be written", parent.display()));
            }
            other => return other,
        }
    }
    Err(OpenError::NoRoom { dir: directory.path().to_owned(), needed, places: refused.join(", ") })
}

/// Directories in which a copy may be made; the first is the best.
fn copy_places(dir: &Path, scratch: Option<&Path>) -> Vec<PathBuf> {
    let name = format!("plimsoll-look-{}", std::process::id());
    match scratch {
        Some(scratch) => vec![scratch.join(name)],
        None => vec![dir.join(LOOK_DIR), env::temp_dir().join(name)],
    }
}

fn copy_to(directory: &Directory, engine: &Path, place: PathBuf) -> Result<CopiedFiles, OpenError> {
    if place.starts_with(directory.path()) {
        remove_all(&place)?;
    }
    // other users may write to the directory for temporary files, so an existing directory there is not ours:
    // make a new one
    make_empty_dir(&place)?;
    let look = CopiedFiles(place);
    create_private_directory(&look.engine())?;
    for name in [marker::MARKER_FILE, witness::WITNESS_FILE] {
        let (from, to) = (directory.path().join(name), look.0.join(name));
        match fs::copy(&from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::io("copy", from)(error));
            }
            _ => {}
        }
    }
    for file in fs::read_dir(engine).map_err(OpenError::io("list", engine))? {
        let file = file.map_err(OpenError::io("list", engine))?;
        if file.file_type().is_ok_and(|found| found.is_file()) {
            let copied = fs::copy(file.path(), look.engine().join(file.file_name()));
            copied.map_err(OpenError::io("copy", file.path()))?;
        }
    }
    small_files::remove_unusable(&look.engine())?;
    Ok(look)
}

fn make_empty_dir(place: &Path) -> Result<(), OpenError> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(place).map_err(OpenError::io("create", place))
}
