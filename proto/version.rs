//! The build script of both programs: what `--version` prints, in the variable `PLIMSOLL_VERSION` of the compiler.
//!
//! The commit comes from the variable `PLIMSOLL_COMMIT`, or from git where the sources are a clone. A debug build does not ask git: every
//! commit would compile the programs anew. Without an answer it is "unknown".

#![expect(clippy::disallowed_methods, reason = "cargo says through the environment what it builds")]
#![expect(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::{env, path::Path, process::Command};

/// Digits of the commit that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo:rerun-if-env-changed=PLIMSOLL_COMMIT");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (version, target) = (variable("CARGO_PKG_VERSION"), variable("TARGET"));
    let given = variable("PLIMSOLL_COMMIT");
    let asked = || (variable("PROFILE") == "release").then(commit_of_clone).flatten();
    let commit = if given.is_empty() { asked() } else { Some(given) };
    let commit: String = match &commit {
        Some(commit) => commit.chars().filter(char::is_ascii_alphanumeric).take(DIGITS).collect(),
        None => "unknown".to_owned(),
    };
    println!("cargo:rustc-env=PLIMSOLL_VERSION={version} (commit {commit}, {target})");
}

/// The commit that is checked out, if the package is part of a clone; the script then runs again when another one is.
fn commit_of_clone() -> Option<String> {
    // sources that only lie below a clone of something else have no commit
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    // a file that is missing would make each build run the script
    if Path::new(&log).try_exists().unwrap_or(false) {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

/// The first line that git prints; `None` if it is missing or fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned())
}
