//! The engine's small files: `conf` and `snap.*`. They contain nothing that is not in the log as well, but sled
//! trusts them, and refuses a store for one wrong bit in them. So a file with a wrong checksum is removed
//! before sled opens the store, and sled writes a new one.
//!
//! The module `raw_log` describes their bytes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use plimsoll_base::own_files;

use super::open_error::OpenError;

/// Name of sled's file of settings.
const SETTINGS_FILE: &str = "conf";
/// sled ignores a file of settings that is shorter than this many bytes.
const MIN_SETTINGS_BYTES: usize = 9;
/// Bytes of length and checksum at the end of a snapshot.
const SNAPSHOT_END_BYTES: usize = 12;

/// A file that was removed, with its content, so that it can be put back.
#[derive(Debug)]
pub(crate) struct RemovedFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Removes small files that are damaged, and snapshots that a crash left incomplete: sled would take those for
/// complete and never open the store again.
/// Errors: the directory cannot be read or changed.
pub(crate) fn remove_unusable(engine: &Path) -> Result<Vec<RemovedFile>, OpenError> {
    let unusable = unusable_files(engine)?;
    for RemovedFile { path, .. } in &unusable {
        fs::remove_file(path).map_err(OpenError::io("remove", path))?;
        tracing::warn!(
            file = %path.display(),
            "removed a damaged or unfinished file of the storage engine that holds nothing of its own; it is written anew"
        );
    }
    Ok(unusable)
}

/// The small files that are incomplete or have a wrong checksum.
fn unusable_files(engine: &Path) -> Result<Vec<RemovedFile>, OpenError> {
    let mut unusable = Vec::new();
    for file in fs::read_dir(engine).map_err(OpenError::io("list", engine))? {
        let path = file.map_err(OpenError::io("list", engine))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_whole = match name.as_str() {
            SETTINGS_FILE => settings_are_whole,
            _ if is_snapshot(&name) => snapshot_is_whole,
            _ if name.starts_with("snap.") => |_unfinished: &[u8]| false,
            _ => continue,
        };
        let bytes = fs::read(&path).map_err(OpenError::io("read", &path))?;
        if !is_whole(&bytes) {
            unusable.push(RemovedFile { path, bytes });
        }
    }
    Ok(unusable)
}

/// Log position from which a start must read the log, according to the newest complete snapshot; 0 without one.
pub(crate) fn read_up_to(engine: &Path) -> io::Result<u64> {
    let mut snapshots = Vec::new();
    for file in fs::read_dir(engine)? {
        let path = file?.path();
        let is_one = path.file_name().is_some_and(|name| is_snapshot(&name.to_string_lossy()));
        snapshots.extend(is_one.then_some(path));
    }
    // the names contain that position, so sorting the names sorts by position
    snapshots.sort();
    for snapshot in snapshots.iter().rev() {
        let bytes = fs::read(snapshot)?;
        if snapshot_is_whole(&bytes) {
            let position = bytes.first_chunk().map_or(0, |position| i64::from_le_bytes(*position));
            return Ok(u64::try_from(position.saturating_sub(1)).unwrap_or(0));
        }
    }
    Ok(0)
}

fn is_snapshot(name: &str) -> bool {
    name.starts_with("snap.") && !name.ends_with(".generating")
}

fn settings_are_whole(bytes: &[u8]) -> bool {
    let Some((content, crc)) = bytes.split_last_chunk::<4>() else { return true };
    bytes.len() < MIN_SETTINGS_BYTES || crc32fast::hash(content) == u32::from_le_bytes(*crc)
}

fn snapshot_is_whole(bytes: &[u8]) -> bool {
    let content =
        bytes.len().checked_sub(SNAPSHOT_END_BYTES).filter(|len| *len > 0).and_then(|len| bytes.get(..len));
    let crc = bytes.last_chunk().map(|crc| u32::from_le_bytes(*crc));
    content.is_some_and(|content| crc == Some(crc32fast::hash(content)))
}

/// Refuses an engine directory that contains links, because sled would write through them.
pub(crate) fn refuse_links(engine: &Path) -> Result<(), OpenError> {
    match fs::symlink_metadata(engine) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::io("look at", engine)(error)),
        Ok(found) if found.is_dir() => {}
        Ok(found) => return own_files::refuse_links(&found).map_err(OpenError::io("look at", engine)),
    }
    for file in fs::read_dir(engine).map_err(OpenError::io("list", engine))? {
        let file = file.map_err(OpenError::io("list", engine))?;
        match file.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(found) => own_files::refuse_links(&found).map_err(OpenError::io("open", file.path()))?,
            // a store that was just closed may still be removing old snapshots
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(OpenError::io("look at", file.path())(error)),
        }
    }
    Ok(())
}
