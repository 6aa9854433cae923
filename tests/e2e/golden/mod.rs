//! What the programs print, as people read it: one file for each program with every command and its answer, on a terminal of 80
//! columns without colour.
//!
//! The store is the same in every run. What differs from run to run stands as a placeholder: `<dir>`, `<time>`, `<number>`, `<id>`.
//! Read a file that has changed as the engineer who gets the answer would, then take it over.

mod agent;
mod server;
mod store;
mod transcript;

use std::{env, fs, path::Path};

/// Fails if the file in `tests/golden` is another one, and writes what it should be beside the tests' files.
fn assert_is_the_file(now: &str, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let made = env::temp_dir().join(name);
    fs::write(&made, now).unwrap();
    let first = now.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert!(
        kept == now,
        "tests/golden/{name} is not what the program prints (first: {first:?}): read {}, then put it there",
        made.display()
    );
}
