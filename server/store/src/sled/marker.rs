//! The marker: a small file beside the engine's directory with the store's identity and its progress.
//!
//! sled may open a truncated log as a new, empty store. Only a file outside the log can show that something is
//! missing. That file goes with all others when the directory is emptied, so the directory itself has the id of its store, too, as an
//! extended attribute: a new directory has none.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use plimsoll_base::own_files;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::open_error::{FORMAT_VERSION, OpenError};

/// Name of the file in the data directory.
pub(crate) const MARKER_FILE: &str = "plimsoll.json";
/// Name of the next marker while it is written.
pub(crate) const NEW_FILE: &str = "plimsoll.json.new";

/// The extended attribute of the data directory with the id of its store, as text.
pub(crate) const ATTRIBUTE: &str = "user.plimsoll.store";

/// Content of the marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) store_id: Ulid,
    pub(crate) format_version: u32,
    pub(crate) commit_sequence: u64,
    pub(crate) state: StoreStage,
    /// Number of ended attempts that `restore` or `repair` wrote into the store; `None` once a server has
    /// opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u64>,
}

/// How far the creation of the store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreStage {
    /// Creation is not finished: nothing was ever acknowledged.
    Creating,
    /// A restore is running or was interrupted: the content is incomplete.
    Filling,
    /// The store was opened at least once.
    Ready,
}

impl Marker {
    /// The marker of a store that is about to be created.
    pub(crate) fn new() -> Self {
        Self {
            store_id: Ulid::new(),
            format_version: FORMAT_VERSION,
            commit_sequence: 0,
            state: StoreStage::Creating,
            attempts: None,
        }
    }

    /// Reads the marker of a directory, if there is one.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, OpenError> {
        #[derive(Deserialize)]
        struct MarkerVersion {
            format_version: u32,
        }
        let path = dir.join(MARKER_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(OpenError::io("read", path)(error));
            }
            Err(error) => return Err(OpenError::Marker { path, reason: error.to_string() }),
        };
        let damaged =
            |error: serde_json::Error| OpenError::Marker { path: path.clone(), reason: error.to_string() };
        // read the version first: the other fields of a marker may differ in another format
        let MarkerVersion { format_version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        check_format(dir, format_version)?;
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Replaces the marker of an open store. If the marker is missing it is not written again, because the data
    /// directory is being removed.
    pub(crate) fn update(&self, dir: &Path) -> Result<(), OpenError> {
        let path = dir.join(MARKER_FILE);
        if !fs::exists(&path).map_err(OpenError::io("look at", &path))? {
            return Err(OpenError::MarkerLost { dir: dir.to_owned() });
        }
        self.write(dir)
    }

    /// Replaces the marker of a directory; after a crash it has either the old marker or the new one.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), OpenError> {
        let (path, new) = (dir.join(MARKER_FILE), dir.join(NEW_FILE));
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| OpenError::Marker { path: path.clone(), reason: error.to_string() })?;
        own_files::replace(&new, &path, &text).map_err(OpenError::io("write", new))?;
        if self.state == StoreStage::Ready {
            // file systems without such attributes keep the marker alone
            let _unsupported =
                setxattr(dir, ATTRIBUTE, self.store_id.to_string().as_bytes(), XattrFlags::empty());
        }
        Ok(())
    }
}

/// Refuses a directory without a marker that had a store: everything in it was removed, but not the directory itself.
pub(crate) fn refuse_emptied(dir: &Path) -> Result<(), OpenError> {
    let mut id = [0; 64];
    let Ok(length) = getxattr(dir, ATTRIBUTE, &mut id) else { return Ok(()) };
    let id = String::from_utf8_lossy(id.get(..length).unwrap_or_default()).into_owned();
    let what = format!(
        "all files of the store {id} are gone (to start empty in it, name a subfolder of it as data directory, or take away what tells it \
         from a new one: setfattr -x {ATTRIBUTE} {})",
        dir.display()
    );
    Err(OpenError::Emptied { dir: dir.to_owned(), what })
}

/// Id of the store in a directory, from its marker. Works also while a server has the store open.
/// Errors: the marker cannot be read.
pub fn store_id_of(dir: &Path) -> Result<Option<Ulid>, OpenError> {
    Ok(Marker::read(dir)?.map(|marker| marker.store_id))
}

/// Refuses every format but [`FORMAT_VERSION`].
pub(crate) fn check_format(dir: &Path, found: u32) -> Result<(), OpenError> {
    if found == FORMAT_VERSION { Ok(()) } else { Err(OpenError::OtherFormat { dir: dir.to_owned(), found }) }
}

/// Syncs a directory.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(OpenError::io("sync", dir))
}
