//! Files for one test, each in a directory of its own.

#![expect(clippy::unwrap_used, reason = "a test without its file must fail")]

use std::{fs, path::PathBuf};

use tempfile::TempDir;

/// A new directory, which is removed when it is dropped, and the path of a file in it that does not exist yet.
pub fn file_name(name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    (dir, path)
}

/// A file with this content in a new directory, which is removed when it is dropped.
pub fn file_with(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let (dir, path) = file_name(name);
    fs::write(&path, content).unwrap();
    (dir, path)
}
