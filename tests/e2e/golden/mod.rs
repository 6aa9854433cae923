//! What the programs print, as people read it: one file for each program with every command and its answer, on a terminal of 80
//! columns without colour.
//!
//! The store is the same in every run. What differs from run to run stands as a placeholder: `<dir>`, `<time>`, `<number>`, `<id>`.
//! Read a file that has changed as the engineer who gets the answer would, then take it over.

mod agent;
mod server;
mod store;
mod transcript;

use std::{fs, path::Path};

use plimsoll_proto::fixtures::assert_pinned;

/// Fails if the file in `tests/golden` is another one, and writes what it should be beside the tests' files.
fn assert_is_the_file(now: &str, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    assert_pinned(now, &fs::read_to_string(file).unwrap_or_default(), name);
}
