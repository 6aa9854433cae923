//! A small file system of its own, for tests of disks that are full or take no writes.

#![expect(clippy::unwrap_used, reason = "a disk that cannot do its work must fail the test")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A mounted tmpfs. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this size, as mount(8) takes it, at a directory that is there. `None`, with a line that says so, where this process
    /// may not mount.
    #[must_use]
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "plimsoll-test"]).arg(at).output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("skipped: mounting a small disk needs root");
        None
    }

    /// From now on every write there fails.
    pub fn read_only(&self) {
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status();
        assert!(remounted.unwrap().success(), "{} stays writable", self.0.display());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // lazily, because a store lets go of its files in the background
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.0.display());
    }
}
