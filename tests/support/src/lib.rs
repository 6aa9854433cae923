//! What tests of several crates share. It knows the wire and the source tree, but no type of the server or the agent: the fixtures of a
//! crate's own types lie in that crate, behind a feature.
//!
//! | module | what it does |
//! |---|---|
//! | `collector` | a server that takes samples by the rules of the wire, and misbehaves where a test wants it to |
//! | `fake_http` | an HTTP server that responds as a function says |
//! | `patience` | waits for something that happens soon |
//! | [`postgres`] | a PostgreSQL of the tests' own |
//! | [`small_disk`] | a small file system, to be filled or to take no writes |
//! | `temporary` | files for one test |

#[cfg(feature = "servers")]
pub mod collector;
#[cfg(feature = "servers")]
pub mod fake_http;
#[cfg(feature = "servers")]
pub mod patience;
pub mod postgres;
pub mod small_disk;
#[cfg(feature = "servers")]
pub mod temporary;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
};

/// A program that does not outlive its test: it is killed when this is dropped.
#[derive(Debug)]
pub struct KilledChild(pub Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        // it may have ended already
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// All files below a folder, by their names.
#[expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files_below(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}
