//! Checks the data directory, and the free space on its disk.

use std::{
    io,
    path::{Path, PathBuf},
};

use plimsoll_core::domain::Bytes;
use plimsoll_store::{
    OpenError,
    disk::{DiskSpace, disk},
    store_id_at,
};
use rustix::fs::{Access, access};

use super::CheckLine;

const DATA_CHECK: &str = "data directory";
const ROOM_CHECK: &str = "disk room";
/// Least free space, bytes. A busy server writes this much in some hours, so with less the disk may
/// be full before an operator reacts.
const MIN_FREE_BYTES: u64 = 1 << 30;

/// Checks the data directory; returns whether a server has it open.
pub(super) fn data_directory(dir: &Path) -> (CheckLine, bool) {
    let shown = dir.display();
    let text = match store_id_at(dir) {
        Ok(id) => format!("{shown} holds the store {id}; no server has it open"),
        Err(OpenError::Missing { .. }) => {
            let there = if dir.try_exists().unwrap_or(true) { "is empty" } else { "does not exist" };
            let text = format!(
                "{shown} {there}: no store yet, so the server begins without a history; is it the right --data-dir?"
            );
            let line = judge_writable(dir, text, &try_write(dir));
            let line = if line.is_ok() { CheckLine::warn(DATA_CHECK, line.finding) } else { line };
            return (line, false);
        }
        Err(OpenError::Locked { pid, .. }) => {
            return (CheckLine::ok(DATA_CHECK, format!("{shown} is open in process {pid}")), true);
        }
        Err(error) => return (CheckLine::fail(DATA_CHECK, error.to_string()), false),
    };
    (judge_writable(dir, text, &try_write(dir)), false)
}

pub(super) fn judge_writable(dir: &Path, text: String, writable: &io::Result<()>) -> CheckLine {
    let Err(error) = writable else { return CheckLine::ok(DATA_CHECK, text) };
    let user = rustix::process::geteuid().as_raw();
    let text = format!(
        "{} cannot be written ({error}): give it to the user of the server (this one has the number {user}), or name another --data-dir",
        existing_parent(dir).display()
    );
    CheckLine::fail(DATA_CHECK, text)
}

/// Checks the free space on the data directory's disk.
pub(super) fn free_space(dir: &Path) -> CheckLine {
    match disk(&existing_parent(dir)) {
        Ok(space) => judge_space(space, dir),
        Err(error) => {
            CheckLine::fail(ROOM_CHECK, format!("the disk of {} does not say: {error}", dir.display()))
        }
    }
}

pub(super) fn judge_space(space: DiskSpace, dir: &Path) -> CheckLine {
    let DiskSpace { free, size } = space;
    let text = format!("{} of {} are free", Bytes(free), Bytes(size));
    if free >= MIN_FREE_BYTES {
        return CheckLine::ok(ROOM_CHECK, text);
    }
    let least = Bytes(MIN_FREE_BYTES);
    let text = format!(
        "{text} on the disk of {}: make room, at least {least}; on a full disk the server takes no samples",
        dir.display()
    );
    CheckLine::fail(ROOM_CHECK, text)
}

fn try_write(dir: &Path) -> io::Result<()> {
    Ok(access(existing_parent(dir), Access::WRITE_OK | Access::EXEC_OK)?)
}

/// The directory; if it does not exist, its nearest existing parent.
fn existing_parent(dir: &Path) -> PathBuf {
    let above = dir.ancestors().find(|dir| dir.try_exists().unwrap_or(false));
    above.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")).to_owned()
}
