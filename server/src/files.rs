//! How many files this process may have open. Every connection is one, and the usual soft limit of 1,024 is one of programs
//! that use `select`: whoever does not may raise it to the hard limit.

use std::{io, path::Path, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files for the store, the log and the HTTP listener, however few there are.
const RESERVED: u64 = 128;
/// After a failure that is not of one connection alone.
const PAUSE: Duration = Duration::from_millis(100);
/// Most connections that are worth a file; each holds some 20 KiB.
const MOST: u64 = 65_536;

/// Raises the bound as far as the hard limit and gives the number of gRPC connections that it leaves room for: seven eighths,
/// the rest is for the HTTP listener.
pub(crate) fn connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = if raised.is_ok() { maximum } else { current };
    usize::try_from(room(files.unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
}

/// A disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk {
    /// Bytes that this process may still write.
    pub(crate) free: u64,
    /// All of its bytes.
    pub(crate) size: u64,
}

/// The disk that holds `dir`.
///
/// # Errors
/// The system does not say.
pub(crate) fn disk(dir: &Path) -> io::Result<Disk> {
    let said = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(said.f_frsize);
    Ok(Disk { free: bytes(said.f_bavail), size: bytes(said.f_blocks) })
}

/// Returns when the next connection may be taken: at once if only one connection failed, else after a moment, because there is
/// no file for a connection, and trying again at once would take a whole core.
pub(crate) async fn after_failed_accept(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "cannot take connections; trying again");
    tokio::time::sleep(PAUSE).await;
}

fn room(files: u64) -> u64 {
    (files.saturating_sub(RESERVED) / 8 * 7).clamp(8, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_take_the_last_files() {
        assert_eq!([room(0), room(1024), room(20_000), room(u64::MAX)], [8, 784, 17_388, MOST]);
    }
}
