//! Forwards one stream of the build in a thread of its own.
//!
//! The thread forwards data before it examines the data. It has one buffer. If the reader of the job's log is
//! slow, the thread's write blocks, the build's pipe fills up, and the build waits, as it would without the
//! agent. If the reader closes the log, the thread closes the build's pipe, and the build gets SIGPIPE or
//! EPIPE, as without the agent.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use plimsoll_proto::figures::counted;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    termios::isatty,
};
use tokio::sync::oneshot;

use super::{markers::Scanner, phase_board::PhaseBoard};
use crate::standard_error::WriteFailure;

/// Size of the buffer: that of a pipe.
const BUFFER_BYTES: usize = 64 * 1024;
/// Most bytes that a pipe or a terminal may contain when the build ends: the largest pipe that an ordinary user
/// can create (pipe(7), `pipe-max-size`). After this many bytes, everything that the build itself wrote has
/// been read.
const DRAIN_BYTES: usize = 1024 * 1024;

/// Stops all pumps; they cannot be started again.
#[derive(Debug, Clone)]
pub(super) struct PumpStop(Arc<OwnedFd>);

impl PumpStop {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?)))
    }

    /// Makes each pump read what is available, and then end.
    pub(super) fn stop(&self) {
        if let Err(error) = rustix::io::write(&self.0, &1_u64.to_le_bytes()) {
            tracing::debug!(%error, "cannot stop a stream");
        }
    }
}

/// What a stream carries. This decides what is done with the data besides forwarding it, and when the stream
/// ends.
#[derive(Debug)]
pub(super) enum StreamKind {
    /// Output through a pipe. If the reader of the log is gone, the pipe is closed.
    Pipe(Scanner, Arc<PhaseBoard>),
    /// Output through a terminal. If the real terminal is closed, the kernel sends SIGHUP to the build. The
    /// build's terminal stays open and is read, so that a build that ignores SIGHUP does not block.
    Terminal(Scanner, Arc<PhaseBoard>),
    /// Typed input. The stream ends when the build ends.
    Typed,
}

/// Forwards one stream from `source` to `sink`.
#[derive(Debug)]
pub(super) struct Pump<S, K> {
    pub(super) source: S,
    pub(super) sink: K,
    pub(super) stop: PumpStop,
    pub(super) dropped: Arc<DroppedOutput>,
    pub(super) kind: StreamKind,
}

/// Output that the reader of the log did not accept, for example because its disk is full. The build goes on
/// without it.
#[derive(Debug, Default)]
pub(super) struct DroppedOutput {
    bytes: AtomicU64,
    first_error: OnceLock<String>,
}

impl DroppedOutput {
    fn add_lost(&self, bytes: usize, error: &io::Error) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.first_error.get_or_init(|| error.to_string());
    }

    /// The loss as a sentence; `None` if nothing was lost.
    pub(super) fn in_words(&self) -> Option<String> {
        let (bytes, why) = (self.bytes.load(Ordering::Relaxed), self.first_error.get()?);
        Some(format!("{} of the build's output could not be written: {why}", counted(bytes, "byte")))
    }
}

/// Which operations of a pump are possible now without waiting.
struct PumpReady {
    read: bool,
    stop: bool,
    sink_gone: bool,
}

impl PumpReady {
    const TO_READ: Self = Self { read: true, stop: false, sink_gone: false };
}

impl<S: AsFd + Send + 'static, K: AsFd + Send + 'static> Pump<S, K> {
    /// Starts the thread. The receiver is closed when the stream has ended.
    pub(super) fn start(self) -> io::Result<oneshot::Receiver<()>> {
        let (ended, end) = oneshot::channel();
        let mut buffer = vec![0; BUFFER_BYTES];
        thread::Builder::new().name("output".to_owned()).spawn(move || {
            if let Err(error) = self.run(&mut buffer) {
                tracing::debug!(%error, "a stream of the build has ended");
            }
            drop(ended);
        })?;
        Ok(end)
    }

    /// Forwards data until the source or the sink ends, or until the pump is stopped. Then it closes the
    /// source: a process that still has the other end of a pipe, for example a daemon, gets SIGPIPE or EPIPE at
    /// its next write.
    fn run(mut self, buffer: &mut [u8]) -> io::Result<()> {
        // after the stop: how many bytes are still read
        let mut left = None;
        let mut sink_gone = false;
        loop {
            let ready = if left.is_none() { self.wait(sink_gone)? } else { PumpReady::TO_READ };
            sink_gone = sink_gone || ready.sink_gone;
            if ready.stop {
                left = Some(self.drain_limit());
            }
            if left == Some(0) || self.must_end(sink_gone) {
                return Ok(());
            }
            if !ready.read && !ready.stop {
                continue;
            }
            let read = match read_now(&self.source, buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && left.is_none() => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            sink_gone = sink_gone || !self.forward(bytes);
            self.scan(bytes);
            left = left.map(|left: usize| left.saturating_sub(read));
        }
    }

    /// Forwards data. Returns whether the reader still exists.
    fn forward(&self, bytes: &[u8]) -> bool {
        let Err(WriteFailure { written, error }) = write_all(self.sink.as_fd(), bytes) else { return true };
        if is_gone(&error, self.sink.as_fd()) {
            return false;
        }
        self.dropped.add_lost(bytes.len().saturating_sub(written), &error);
        true
    }

    fn scan(&mut self, bytes: &[u8]) {
        if let StreamKind::Pipe(scanner, board) | StreamKind::Terminal(scanner, board) = &mut self.kind {
            board.build_log.push(bytes);
            let marks = scanner.scan(bytes);
            if !marks.is_empty() {
                board.apply_marks(marks);
            }
        }
    }

    fn must_end(&self, sink_gone: bool) -> bool {
        sink_gone && !matches!(self.kind, StreamKind::Terminal(..))
    }

    fn drain_limit(&self) -> usize {
        if matches!(self.kind, StreamKind::Typed) { 0 } else { DRAIN_BYTES }
    }

    /// Waits until the source has data, the pump is stopped, or the sink has lost its reader.
    fn wait(&self, sink_gone: bool) -> io::Result<PumpReady> {
        let mut fds = [
            PollFd::new(&self.source, PollFlags::IN),
            PollFd::new(&*self.stop.0, PollFlags::IN),
            // no events are requested, because the kernel reports a closed reader in any case
            PollFd::new(&self.sink, PollFlags::empty()),
        ];
        // the sink is left out once its reader is gone, because poll would then return at once each time
        let watched = if sink_gone { 2 } else { 3 };
        retry_interrupted(|| poll(fds.get_mut(..watched).unwrap_or_default(), None))?;
        let [source, stop, sink] = fds.map(|fd| fd.revents());
        Ok(PumpReady {
            read: !source.is_empty(),
            stop: !stop.is_empty(),
            sink_gone: sink.contains(PollFlags::ERR),
        })
    }
}

/// Makes reads from a descriptor return at once if there is no data. No other process may share the
/// descriptor's open file, because this would change it too.
pub(super) fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Reads available data. A closed terminal counts as the end of the stream, like a closed pipe.
fn read_now(source: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    match retry_interrupted(|| rustix::io::read(&source, &mut *buffer)) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(0),
        result => result,
    }
}

/// Whether an error means that the reader will not come back. Other errors may be temporary.
fn is_gone(error: &io::Error, sink: BorrowedFd<'_>) -> bool {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => true,
        Some(rustix::io::Errno::IO) => isatty(sink),
        _other => false,
    }
}

fn write_all(sink: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), WriteFailure> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let result = match retry_interrupted(|| rustix::io::write(sink, rest)) {
            // the program that started the agent may have made its streams non-blocking: wait and try again
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                retry_interrupted(|| poll(&mut [PollFd::new(&sink, PollFlags::OUT)], None)).map(|_ready| 0)
            }
            result => result,
        };
        match result {
            Ok(more) => written = written.saturating_add(more),
            Err(error) => return Err(WriteFailure { written, error }),
        }
    }
    Ok(())
}

fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_permanently_gone_reader_closes_the_stream() {
        let (_reader, pipe) = io::pipe().unwrap();
        let gone = |error: rustix::io::Errno| is_gone(&error.into(), pipe.as_fd());
        assert!(gone(rustix::io::Errno::PIPE) && gone(rustix::io::Errno::CONNRESET));
        assert!(!gone(rustix::io::Errno::NOSPC) && !gone(rustix::io::Errno::IO));
    }

    #[test]
    fn unwritable_output_is_counted_without_stopping_the_build() {
        let (source, mut build) = io::pipe().unwrap();
        // a descriptor that refuses every write without being gone
        let sink = std::fs::File::open("/proc/self/status").unwrap();
        let lost = Arc::<DroppedOutput>::default();
        let kind = StreamKind::Pipe(Scanner::new(super::super::PhaseMarks::default()), Arc::default());
        let pump = Pump { source, sink, stop: PumpStop::new().unwrap(), dropped: Arc::clone(&lost), kind };
        let end = pump.start().unwrap();
        for _line in 0..3 {
            io::Write::write_all(&mut build, b"hello\n").unwrap();
        }
        drop(build);
        assert!(end.blocking_recv().is_err(), "nothing is sent, only the end counts");
        assert!(lost.in_words().unwrap().starts_with("18 bytes of the build's output"), "{lost:?}");
    }
}
