//! What a release is: its version, its licence, its changes, and the script that makes it. `.ci/run` runs that script; it tests itself.

use std::{fs, path::Path, process::Command};

use plimsoll_tests::{Answer, Programs};

use crate::tools::repository;

#[test]
fn both_programs_say_version_commit_and_target() {
    let programs = Programs::for_tests();
    for (program, name) in [(&programs.server, "plimsoll-server"), (&programs.agent, "plimsoll")] {
        let line = Answer::of(Command::new(program).arg("--version")).done();
        let (begin, end) = (format!("{name} {} (commit ", env!("CARGO_PKG_VERSION")), "-linux-gnu)\n");
        assert!(line.starts_with(&begin) && line.ends_with(end), "{line}");
    }
}

/// The build script of both programs, compiled; it says what `--version` prints.
struct VersionScript(tempfile::TempDir);

impl VersionScript {
    fn compile() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = repository().join("proto/version.rs");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "-o"]).arg(dir.path().join("version")).arg(script);
        assert!(rustc.status().unwrap().success());
        Self(dir)
    }

    /// What it prints in a folder, for a profile of cargo.
    fn run(&self, folder: &Path, profile: &str, commit: Option<&str>) -> String {
        let mut script = Command::new(self.0.path().join("version"));
        script.current_dir(folder).env("CARGO_PKG_VERSION", "1.2.3").env("TARGET", "a-b-c");
        script.env("PROFILE", profile).env_remove("PLIMSOLL_COMMIT").env("GIT_CEILING_DIRECTORIES", "/tmp");
        Answer::of(script.envs(commit.map(|commit| ("PLIMSOLL_COMMIT", commit)))).done()
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@example"]).args(words).current_dir(folder);
    Answer::of(&mut git).done()
}

#[test]
fn the_commit_comes_from_variable_or_clone() {
    let (script, dir) = (VersionScript::compile(), tempfile::tempdir().unwrap());
    let unknown = "PLIMSOLL_VERSION=1.2.3 (commit unknown, a-b-c)\n";
    let always = "cargo:rerun-if-env-changed=PLIMSOLL_COMMIT\ncargo:rustc-env=";
    assert_eq!(script.run(dir.path(), "release", None), [always, unknown].concat());
    let given = script.run(dir.path(), "debug", Some("0123456789abcdef"));
    assert!(given.ends_with("(commit 0123456789ab, a-b-c)\n"), "{given}");

    git(dir.path(), &["init", "--quiet"]);
    fs::write(dir.path().join("Cargo.toml"), "").unwrap();
    // below a clone, and no part of it
    assert_eq!(script.run(dir.path(), "release", None), [always, unknown].concat());
    git(dir.path(), &["add", "Cargo.toml"]);
    git(dir.path(), &["commit", "--quiet", "--message", "one"]);
    let head = git(dir.path(), &["rev-parse", "--short=12", "HEAD"]);
    let clone = script.run(dir.path(), "release", None);
    assert!(clone.ends_with(&format!("(commit {}, a-b-c)\n", head.trim())), "{clone}");
    // only what exists: cargo runs the script at each build for a file that does not
    let watched: Vec<&str> =
        clone.lines().filter_map(|line| line.strip_prefix("cargo:rerun-if-changed=")).collect();
    assert_eq!(watched, [".git/logs/HEAD"]);
    assert_eq!(script.run(dir.path(), "debug", None), [always, unknown].concat());
}
