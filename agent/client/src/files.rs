//! Reads files in threads of their own, because the agent's main thread takes samples, forwards signals and waits for the end of the build.
//! So a pipe without a writer, or a file system that hangs, delays only the code that reads the file.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use rustix::fs::OFlags;
use tokio::{task::spawn_blocking, time::timeout};

/// Longest time for reading a file. A thread that hangs in the file system is abandoned after that.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `work`, which may block in a file system, in its own thread.
/// Errors: `work` is not done in time, or its thread panicked.
pub(crate) async fn run_with_timeout<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match timeout(READ_TIMEOUT, spawn_blocking(work)).await {
        Ok(done) => done.map_err(io::Error::other),
        Err(_elapsed) => Err(io::Error::other(format!("no answer within {READ_TIMEOUT:?}"))),
    }
}

/// Reads the first bytes of a file, at most `most`. Pipes and devices are refused, because opening a pipe waits for its writer, and a
/// device may never end.
/// Errors: the file cannot be read, or is no regular file.
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
        let hung = tokio_util::task::TaskTracker::new().spawn(run_with_timeout(move || {
            seen.send(()).unwrap();
            hangs.recv()
        }));
        waiting.await.unwrap();
        // paused time does not advance by itself while another thread works
        tokio::time::advance(READ_TIMEOUT).await;
        let problem = hung.await.unwrap().unwrap_err().to_string();
        assert!(problem.starts_with("no answer within"), "{problem}");
        drop(never);
    }
}
