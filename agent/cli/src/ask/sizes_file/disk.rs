//! Reads and writes the kept file.

use std::{fs, io, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path};

use plimsoll_base::own_files;

/// Largest file that is read, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The text of the file; empty if there is no file yet.
/// Errors: it cannot be read, is a link, is too large, is no text, or has the marks of an unfinished merge.
pub(super) fn read(path: &Path) -> Result<String, String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error.to_string()),
        Ok(found) if found.is_symlink() => {
            return Err(
                "is a symbolic link, which would be replaced by a file: name the file that it points to"
                    .into(),
            );
        }
        Ok(found) if !found.is_file() => return Err("is no file".into()),
        Ok(found) if found.permissions().mode() & 0o222 == 0 => {
            return Err("is read-only: allow its owner to write it (chmod u+w)".into());
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {} MiB", MAX_FILE_BYTES >> 20));
    }
    let text =
        String::from_utf8(bytes).map_err(|error| format!("is not text in UTF-8: {}", error.utf8_error()))?;
    let is_conflict = |line: &str| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>");
    match text.lines().position(is_conflict) {
        Some(at) => Err(format!("line {}: a merge conflict; solve it first", at + 1)),
        None => Ok(text),
    }
}

/// Replaces the file in one step; a new file in the same folder takes its name and its mode.
/// Errors: it cannot be written; then it is as it was.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    own_files::replace_named(path, text.as_bytes()).map_err(|error| format!("cannot be written: {error}"))
}
