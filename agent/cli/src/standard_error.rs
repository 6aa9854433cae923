//! Writes to standard error without waiting long for its reader: a log collector that hangs must delay neither
//! the build nor the end of the job.
//!
//! A pipe or a terminal is opened again, because setting `O_NONBLOCK` on the shared descriptor would also
//! affect the build. If it cannot be opened again, each write is so small that it does not block when the
//! descriptor is writable.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    },
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use nix::fcntl::OFlag;
use plimsoll_proto::figures::counted;
use rustix::{
    event::{PollFd, PollFlags, poll},
    stdio::stderr,
    time::Timespec,
};

use crate::terminal_width::wrapped_for;

/// How long a line may wait for its reader while the build runs.
pub(crate) const LINE_PATIENCE: Duration = Duration::from_millis(200);
/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF`, pipe(7)).
const CHUNK_BYTES: usize = 4096;

/// Whether the last line could not be written because the reader did not read.
static READER_BLOCKED: AtomicBool = AtomicBool::new(false);
/// Number of lines that were dropped.
static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);

/// A failed write.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    /// Number of bytes that were written before the failure.
    pub(crate) written: usize,
    /// The error; `WouldBlock` if the time limit was exceeded.
    pub(crate) error: io::Error,
}

/// Writes all bytes; waits at most `limit` for the reader to make space.
/// Errors: the time limit is exceeded, or the write fails.
pub(crate) fn write_within(target: impl AsFd, bytes: &[u8], limit: Duration) -> Result<(), WriteFailure> {
    let start = Instant::now();
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let left = limit.saturating_sub(start.elapsed());
        let chunk = rest.get(..CHUNK_BYTES).unwrap_or(rest);
        let result = wait_for_room(&target, left).and_then(|()| Ok(rustix::io::write(&target, chunk)?));
        match result {
            Ok(more) => written = written.saturating_add(more),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // another program used the space first: try again until the time limit
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < limit => {}
            Err(error) => return Err(WriteFailure { written, error }),
        }
    }
    Ok(())
}

fn wait_for_room(target: impl AsFd, limit: Duration) -> io::Result<()> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&target, PollFlags::OUT)], Some(&limit))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ready => Ok(()),
    }
}

/// The descriptor for standard error: one of the agent's own that does not block, if it can be opened, else the
/// shared one.
fn non_waiting_stderr() -> BorrowedFd<'static> {
    static OWN_DESCRIPTOR: OnceLock<Option<OwnedFd>> = OnceLock::new();
    OWN_DESCRIPTOR.get_or_init(|| reopen_stderr().ok().flatten()).as_ref().map_or(stderr(), AsFd::as_fd)
}

fn reopen_stderr() -> io::Result<Option<OwnedFd>> {
    let path = "/proc/self/fd/2";
    if !(std::fs::metadata(path)?.file_type().is_fifo() || io::stderr().is_terminal()) {
        return Ok(None);
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    Ok(Some(File::options().write(true).custom_flags(flags.bits()).open(path)?.into()))
}

/// Writes a line to standard error while the build runs. Waits a short time for a slow reader; after a line
/// that could not be written, it does not wait until a later line succeeds.
pub(crate) fn write_line(line: &str) {
    let limit = if READER_BLOCKED.load(Relaxed) { Duration::ZERO } else { LINE_PATIENCE };
    let result =
        write_within(non_waiting_stderr(), format!("{}\n", wrapped_for(line, stderr())).as_bytes(), limit);
    READER_BLOCKED.store(
        matches!(&result, Err(WriteFailure { error, .. }) if error.kind() == io::ErrorKind::WouldBlock),
        Relaxed,
    );
    if result.is_err() {
        DROPPED_LINES.fetch_add(1, Relaxed);
    }
}

/// Writes a text to standard error at the end of the job. Waits for the reader until `limit` has passed or
/// `stop` returns.
pub(crate) async fn write_last(text: &str, limit: Duration, stop: impl Future) {
    let mut text = format!("{}\n", wrapped_for(text, stderr()));
    let unread = DROPPED_LINES.load(Relaxed);
    if unread > 0 {
        let lines = counted(unread, "line");
        text = format!("plimsoll: {lines} of plimsoll left out, because the output was not read\n{text}");
    }
    let write = async {
        let mut rest = text.as_bytes();
        while let Err(WriteFailure { written, error }) =
            write_within(non_waiting_stderr(), rest, Duration::ZERO)
        {
            if error.kind() != io::ErrorKind::WouldBlock {
                return;
            }
            rest = rest.get(written..).unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        _late = tokio::time::timeout(limit, write) => {}
        _stopped = stop => {}
    }
}

/// Standard error as the target of the log. Lines are dropped while the reader does not read.
#[derive(Debug, Clone, Copy)]
pub struct StderrLog;

impl Write for StderrLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        write_line(text.strip_suffix('\n').unwrap_or(&text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_reader_does_not_block_the_agent() {
        let (reader, writer) = io::pipe().unwrap();
        let text = vec![b'x'; 1 << 20];
        let unwritten = write_within(&writer, &text, Duration::from_millis(20)).unwrap_err();
        assert_eq!(unwritten.error.kind(), io::ErrorKind::WouldBlock);
        assert!((4096..1 << 20).contains(&unwritten.written), "{unwritten:?}");
        drop(reader);
        let gone = write_within(&writer, &text, Duration::from_mins(1)).unwrap_err();
        assert_eq!(gone.error.kind(), io::ErrorKind::BrokenPipe);
    }
}
