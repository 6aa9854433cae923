//! The directory of a reader who follows a guide.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use plimsoll_tests::Programs;

use crate::tools::repository;

/// Ends a command that should have ended by itself, seconds.
const LONGEST: &str = "1800";

/// Has both programs in `bin`, and `deploy` as the repository has it.
pub(crate) struct GuideDir(tempfile::TempDir);

impl GuideDir {
    pub(crate) fn new() -> Self {
        let dir = Self(tempfile::tempdir().unwrap());
        let programs = Programs::for_tests();
        fs::create_dir(dir.path("bin")).unwrap();
        symlink(&programs.agent, dir.path("bin/plimsoll")).unwrap();
        symlink(&programs.server, dir.path("bin/plimsoll-server")).unwrap();
        symlink(repository().join("deploy"), dir.path("deploy")).unwrap();
        dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A shell in this directory with a command line; of its environment it has `PATH` and `HOME` alone.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("timeout");
        shell.args([LONGEST, "sh", "-c", line]).current_dir(self.0.path()).env_clear().stdin(Stdio::null());
        shell.env("PATH", format!("{}:/usr/bin:/bin", self.name("bin"))).env("HOME", self.0.path());
        shell
    }
}
