//! Why a data directory cannot be used. Each text names the directory or file, and says what to do.

use std::{
    io,
    path::{Path, PathBuf},
};

use plimsoll_base::own_files::LinkRefusal;

/// Format that this program writes, and the only one that it reads. Increase it with every change of `FORMAT.md` that is not an addition.
pub const FORMAT_VERSION: u32 = 6;
/// Name of the engine's directory.
pub(crate) const ENGINE: &str = "sled";

/// Why a store did not open. Unless the error's text says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is not a directory.
    #[error("{dir} is not a directory: point the data directory at a directory, or at a path that does not exist yet", dir = dir.display())]
    NotADirectory {
        /// The data directory.
        dir: PathBuf,
    },
    /// The directory holds files of another program.
    #[error("{dir} is not a plimsoll data directory: it holds {found:?} and no plimsoll.json; point the data directory at an empty directory, or at the right one", dir = dir.display())]
    Foreign {
        /// The data directory.
        dir: PathBuf,
        /// Name of one file of another program.
        found: String,
    },
    /// There is no store.
    #[error("{dir} holds no store: there is no plimsoll.json; name the data directory of a server", dir = dir.display())]
    Missing {
        /// The data directory.
        dir: PathBuf,
    },
    /// There already is a store where a new one should be created.
    #[error("{dir} holds a store already: name a new or an empty directory, or move this one away first", dir = dir.display())]
    Occupied {
        /// The data directory.
        dir: PathBuf,
    },
    /// A restore was interrupted, so the store is incomplete.
    #[error("{dir} is half restored: a restore into it did not end; remove it and restore again. If the backup is gone, save what was restored{way}", dir = dir.display(), way = way_out_words(dir))]
    HalfRestored {
        /// The data directory.
        dir: PathBuf,
    },
    /// Another process uses the store.
    #[error("{dir} is in use by process {pid}: stop that server first, or give this one a data directory of its own", dir = dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// Content of the lock file: the id of that process.
        pid: String,
    },
    /// The store was written in another format.
    #[error("{dir} holds a store of format {found}, and this program reads format {FORMAT_VERSION} only: start the program that wrote it, or export the history there (plimsoll-server export), name an empty directory here, and import it (plimsoll-server import). If no other program ever wrote there, plimsoll.json is damaged: save the store{way}", dir = dir.display(), way = way_out_words(dir))]
    OtherFormat {
        /// The data directory.
        dir: PathBuf,
        /// Format of the store in the directory.
        found: u32,
    },
    /// The store contains less than was acknowledged: its log is missing, empty or another store's.
    #[error("{dir} has lost what it held: {what}; restore a backup of the whole directory, save what is left{way}, or move it away to start empty", dir = dir.display(), way = way_out_words(dir))]
    Emptied {
        /// The data directory.
        dir: PathBuf,
        /// What the marker and the store contain, in words.
        what: String,
    },
    /// The store ends before the last commit that was acknowledged.
    #[error("{dir} is damaged: {what}, so what was acknowledged after that is lost; restore a backup into another directory, or save what is left{way}", dir = dir.display(), way = way_out_words(dir))]
    Behind {
        /// The data directory.
        dir: PathBuf,
        /// What the marker, the witness and the store contain, in words.
        what: String,
    },
    /// The log is damaged, and the engine would silently drop what follows the damage.
    #[error("{dir} is damaged: sled/db cannot be read at byte {at}, and the storage engine would leave out what was written after that, and overwrite it; restore a backup into another directory, or save what is left{way}, which says whether anything is lost", dir = dir.display(), way = way_out_words(dir))]
    Torn {
        /// The data directory.
        dir: PathBuf,
        /// Position of the first damaged byte in the log.
        at: u64,
    },
    /// The directory has a store, but its marker is missing.
    #[error("{dir} holds a store whose plimsoll.json is gone, so it is not known whether all of it is there; restore a backup of the whole directory, or save what is left{way}", dir = dir.display(), way = way_out_words(dir))]
    MarkerLost {
        /// The data directory.
        dir: PathBuf,
    },
    /// Nothing is left that a repair could read.
    #[error("{dir} cannot be repaired: no record can be read from its sled/db, where all of them are; restore a backup, or without one move the directory away, and a server starts empty", dir = dir.display())]
    NothingLeft {
        /// The data directory.
        dir: PathBuf,
    },
    /// The target of a repair is the damaged directory itself.
    #[error("{into} is part of {dir}, or the other way round: a repair changes nothing in the damaged directory; name a new one beside it (--into NEW)", dir = dir.display(), into = into.display())]
    IntoItself {
        /// The data directory.
        dir: PathBuf,
        /// The target directory of the repair.
        into: PathBuf,
    },
    /// There is no space for the copy that is read in place of the store.
    #[error("a copy of {dir} to look at needs {needed} bytes, and {places}: name a directory with room (--scratch DIR), make room, or let verify or backup read the files themselves (--in-place), which may change what is damaged in them", dir = dir.display())]
    NoRoom {
        /// The data directory.
        dir: PathBuf,
        /// Number of bytes that the copy needs.
        needed: u64,
        /// The directories in which the copy was tried, and why each failed.
        places: String,
    },
    /// The marker cannot be parsed.
    #[error("{path} is damaged ({reason}): restore it from a backup of the directory, or save the store{way}", path = path.display(), way = way_out_words(parent_of(path)))]
    Marker {
        /// The marker file.
        path: PathBuf,
        /// What is wrong with the marker, in words.
        reason: String,
    },
    /// The engine has values in separate files, which it never syncs.
    #[error("{path} is not empty: sled keeps large values there and never syncs them, and this server never writes such; restore a backup of the whole directory, or save what is left{way}", path = path.display(), way = way_out_words(parent_of(parent_of(path))))]
    Blobs {
        /// The directory with the values in separate files.
        path: PathBuf,
    },
    /// The engine could not open its files.
    #[error("the storage engine cannot open {dir}: {reason}; if the disk is full, make room; if the files are damaged, restore a backup into another directory, or save what is left{way}", dir = dir.display(), way = way_out_words(parent_of(dir)))]
    Engine {
        /// The engine's directory.
        dir: PathBuf,
        /// The error of the system or the engine.
        reason: String,
    },
    /// The engine's flush does not reach the disk.
    #[error("a flush of {dir} did not call fdatasync, so a power cut could lose everything: this program was linked wrongly; use a released build", dir = dir.display())]
    NotDurable {
        /// The engine's directory.
        dir: PathBuf,
    },
    /// The path is a link, so that a write to it could change another file.
    #[error("{path} is not used: {refusal}", path = path.display())]
    Link {
        /// The file or directory that is a link.
        path: PathBuf,
        /// Why the link is refused.
        refusal: LinkRefusal,
    },
    /// A file or directory cannot be used.
    #[error("cannot {action} {path}: {cause}; check that the disk is there, has room, and belongs to the user that the server runs as", path = path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The system's error. The text contains it, so it is not marked as the `source`: an error chain would
        /// print it twice.
        cause: io::Error,
    },
}

/// Advice with the command that recovers what is left of a store.
fn way_out_words(dir: &Path) -> String {
    format!(" into a new directory (plimsoll-server repair {})", dir.display())
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

impl OpenError {
    /// Whether this process may not write to the path: the file system is read-only, or the files belong to
    /// another user.
    pub fn is_write_refused(&self) -> bool {
        let kinds = [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied];
        matches!(self, Self::Io { cause, .. } if kinds.contains(&cause.kind()))
    }

    /// The same error with the data directory `dir` in place of its copy.
    pub(crate) fn about(self, dir: &Path) -> Self {
        let dir = dir.to_owned();
        match self {
            Self::Emptied { what, .. } => Self::Emptied { dir, what },
            Self::Behind { what, .. } => Self::Behind { dir, what },
            Self::Torn { at, .. } => Self::Torn { dir, at },
            Self::Engine { reason, .. } => Self::Engine { dir: dir.join(ENGINE), reason },
            Self::OtherFormat { found, .. } => Self::OtherFormat { dir, found },
            other => other,
        }
    }

    /// Turns an I/O error into one with action and path.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| match LinkRefusal::of(&cause) {
            Some(refusal) => Self::Link { path, refusal },
            None => Self::Io { action, path, cause },
        }
    }
}
