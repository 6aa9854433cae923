//! Reads files beside the agent's only thread, which takes the samples, passes signals on and sees the build end: a pipe without
//! a writer, and a file system that hangs, hold up nothing but what needs the file.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use rustix::fs::OFlags;
use tokio::{task::spawn_blocking, time::timeout};

/// How long a file system may take to show what is in a file. A thread that hangs in it is left behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// Does what may wait for a file system in a thread of its own.
///
/// # Errors
/// It is not done in time, or its thread ended before it.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match timeout(PATIENCE, spawn_blocking(work)).await {
        Ok(done) => done.map_err(io::Error::other),
        Err(_elapsed) => Err(io::Error::other(format!("no answer within {PATIENCE:?}"))),
    }
}

/// Reads the first bytes of a file, `most` of them at most. Opening a pipe would wait for its writer, and a device may give bytes without
/// end, so both are refused.
///
/// # Errors
/// The file cannot be read, or is no regular file.
pub(crate) fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_hangs_is_left_behind() {
        let (never, hangs) = std::sync::mpsc::channel::<()>();
        let (seen, waiting) = tokio::sync::oneshot::channel();
        let hung = tokio_util::task::TaskTracker::new().spawn(blocking(move || {
            seen.send(()).unwrap();
            hangs.recv()
        }));
        waiting.await.unwrap();
        // time does not pass by itself while a thread works
        tokio::time::advance(PATIENCE).await;
        let problem = hung.await.unwrap().unwrap_err().to_string();
        assert!(problem.starts_with("no answer within"), "{problem}");
        drop(never);
    }
}
