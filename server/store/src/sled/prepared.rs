//! The last changes to the engine's files before the engine opens them. If the start is then refused, each
//! change is undone, so that a refused start leaves the directory unchanged.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use plimsoll_base::own_files;

use super::{
    directory::{Directory, create_private_directory},
    marker::sync_dir,
    open_error::{ENGINE, OpenError},
    small_files::{self, RemovedFile},
};

/// Engine files that are ready to be opened.
#[derive(Debug)]
pub(crate) struct PreparedEngine {
    /// Directory of the engine's files.
    pub(crate) engine: PathBuf,
    /// Directory in which the files were before they were renamed; `None` if they were not.
    moved_from: Option<PathBuf>,
    removed_files: Vec<RemovedFile>,
}

impl PreparedEngine {
    /// Uses the files where they are, and removes those that would make the engine fail.
    /// Errors: the directory cannot be written.
    pub(crate) fn prepare_in_place(directory: &Directory) -> Result<Self, OpenError> {
        let engine = directory.engine();
        create_private_directory(&engine)?;
        sync_dir(directory.path())?;
        let removed = small_files::remove_unusable(&engine)?;
        Ok(Self { engine, moved_from: None, removed_files: removed })
    }

    /// Renames the files to their proper name first, if a crash interrupted their replacement by `compact`.
    /// Errors: the directory cannot be written.
    pub(crate) fn prepare_moved(directory: &Directory) -> Result<Self, OpenError> {
        let (found, own) = (directory.engine(), directory.path().join(ENGINE));
        if found == own {
            return Self::prepare_in_place(directory);
        }
        fs::rename(&found, &own).map_err(OpenError::io("rename", &found))?;
        Self::prepare_in_place(directory).map(|prepared| Self { moved_from: Some(found), ..prepared })
    }

    /// Undoes all changes after the start was refused.
    pub(crate) fn undo(self) {
        let Self { engine, moved_from, removed_files: removed } = self;
        let put_back = removed.iter().try_for_each(write_new);
        let moved_back = moved_from.map_or(Ok(()), |before| fs::rename(&engine, before));
        if let Err(error) = put_back.and(moved_back) {
            tracing::warn!(%error, dir = %engine.display(), "a start was refused, and not all files could be put back");
        }
    }
}

fn write_new(file: &RemovedFile) -> io::Result<()> {
    let RemovedFile { path, bytes } = file;
    match own_files::create_new(path) {
        Ok(mut file) => file.write_all(bytes),
        // the engine has written a new file of this name
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_start_undoes_its_preparation() {
        let (dir, old) = plimsoll_support::temporary::file_name("sled.old");
        fs::create_dir(&old).unwrap();
        let names = ["conf", "snap.00", "snap.01.generating", "db"];
        for name in names {
            fs::write(old.join(name), format!("damaged {name}")).unwrap();
        }
        let directory = Directory::open_damaged(dir.path()).unwrap();
        let prepared = PreparedEngine::prepare_moved(&directory).unwrap();
        let left: Vec<_> = fs::read_dir(dir.path().join("sled")).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(left.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>(), ["db"]);
        prepared.undo();
        assert!(!fs::exists(dir.path().join("sled")).unwrap());
        for name in names {
            assert_eq!(fs::read_to_string(old.join(name)).unwrap(), format!("damaged {name}"));
        }
    }
}
