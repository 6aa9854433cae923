//! The lock file of a data directory: one process at a time has the store open.

use std::{
    fs::{File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use plimsoll_base::own_files;

use super::open_error::OpenError;

pub(super) const LOCK_FILE: &str = "plimsoll.lock";
/// How long a lock may outlive its holder: a process that the holder has just started has the lock, too, until it runs its program.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two attempts to take the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock, and writes the id of this process into the lock file: a second process names it in its error
/// message.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK_FILE);
    let mut file = own_files::open_or_create(&path).map_err(OpenError::io("create", &path))?;
    take_lock(&mut file, dir)?;
    let mut note = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    match note() {
        // the process id is only for messages; a store on a full disk must still be readable
        Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(OpenError::io("write", &path)(error)),
        _ => Ok(file),
    }
}

/// Takes the lock in a directory where this process may not write. An existing lock file can be locked with
/// read access alone; `None` if there is none.
pub(super) fn lock_unwritable(dir: &Path) -> Result<Option<File>, OpenError> {
    let path = dir.join(LOCK_FILE);
    match File::open(&path) {
        Ok(mut file) => take_lock(&mut file, dir).map(|()| Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io("open", path)(error)),
    }
}

fn take_lock(file: &mut File, dir: &Path) -> Result<(), OpenError> {
    let begin = Instant::now();
    let mut tried = file.try_lock();
    while matches!(tried, Err(TryLockError::WouldBlock)) && begin.elapsed() < RELEASE_PATIENCE {
        thread::sleep(RETRY_INTERVAL);
        tried = file.try_lock();
    }
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let read = file.read_to_string(&mut pid);
            let known = read.is_ok() && !pid.trim().is_empty();
            let pid = if known { pid.trim().to_owned() } else { "(unknown)".to_owned() };
            Err(OpenError::Locked { dir: dir.to_owned(), pid })
        }
        Err(TryLockError::Error(error)) => Err(OpenError::io("lock", dir.join(LOCK_FILE))(error)),
    }
}
