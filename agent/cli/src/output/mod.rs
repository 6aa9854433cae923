//! The build's output, on its way through the agent.
//!
//! Where phases are wanted, the build writes to the agent instead of to the job's log, and the agent writes on what comes
//! ([`pump`]) and reads phases out of it ([`markers`], [`tracker`], [`phase_board`]). A terminal is replaced by another one
//! ([`terminal`]) if phases are asked for there, and left alone otherwise; everything else is replaced by a pipe. Two streams that are
//! one (`2>&1`) stay one, so that their lines stay in order.
//! Where this cannot be set up, the build gets the streams as they are, and has no phases.

mod log_tail;
mod markers;
mod phase_board;
mod pump;
mod terminal;
mod tracker;

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    spawn::PosixSpawnFileActions,
    sys::{signal::Signal, stat::Mode},
    unistd::Pid,
};
use rustix::{
    fs::fstat,
    pipe::{PipeFlags, pipe_with},
    stdio::{stderr, stdin, stdout},
    termios::isatty,
};
use tokio::{sync::oneshot, time::timeout};

use crate::standard_error::say;

pub use markers::{PATTERNS, Pattern, PhaseMarks};
pub(crate) use phase_board::PhaseChange;

use markers::Scanner;
use phase_board::PhaseBoard;
use pump::{DroppedOutput, Pump, PumpStop, StreamKind, never_wait};
use terminal::{Terminal, in_foreground};

/// How long a stream may stay open after the end of the command: a `tee` behind the shell's back (`exec > >(tee log)`) is done in
/// that time. What stays longer is a daemon, and is not waited for.
const GRACE: Duration = Duration::from_millis(500);

/// The streams of a command that is about to start, or runs. Dropped, it restores the terminal.
#[derive(Debug)]
pub(crate) struct Output {
    board: Arc<PhaseBoard>,
    lost: Arc<DroppedOutput>,
    stop: PumpStop,
    /// Tell the ends of what comes from the build.
    streams: Vec<oneshot::Receiver<()>>,
    /// What the command gets: descriptors of the agent, and which of its own they become.
    pipes: Vec<(OwnedFd, Vec<RawFd>)>,
    terminal: Option<Terminal>,
    on_terminal: Vec<RawFd>,
}

impl Output {
    /// Prepares to look for marks; before the command starts, so that nothing is left to fail after that. `None` if it fails: the
    /// command then gets the streams of the agent.
    pub(crate) fn prepare(kinds: &PhaseMarks) -> Option<Self> {
        Self::set_up(kinds)
            .inspect_err(|error| tracing::warn!(%error, "the output is not read, so the build has no phases"))
            .ok()
    }

    fn set_up(kinds: &PhaseMarks) -> io::Result<Self> {
        let mut output = Self {
            board: Arc::new(PhaseBoard::default()),
            lost: Arc::default(),
            stop: PumpStop::new()?,
            streams: Vec::new(),
            pipes: Vec::new(),
            terminal: None,
            on_terminal: Vec::new(),
        };
        let one = same(stdout(), stderr());
        let first = if one { vec![stdout(), stderr()] } else { vec![stdout()] };
        let second = if one { Vec::new() } else { vec![stderr()] };
        for targets in [first, second] {
            let Some(&sink) = targets.first() else { continue };
            let numbers = targets.iter().map(AsRawFd::as_raw_fd).collect();
            if !isatty(sink) {
                output.add_pipe(sink, numbers, kinds)?;
            } else if kinds.terminals && output.terminal.is_none() && in_foreground(sink) {
                output.add_terminal(sink, numbers, kinds)?;
            }
            // a terminal that is not to be read, a second one, or one that belongs to others now, is inherited
        }
        Ok(output)
    }

    fn pump<S>(
        &self,
        source: S,
        sink: BorrowedFd<'static>,
        kind: StreamKind,
    ) -> Pump<S, BorrowedFd<'static>> {
        Pump { source, sink, stop: self.stop.clone(), lost: Arc::clone(&self.lost), kind }
    }

    fn add_pipe(
        &mut self,
        sink: BorrowedFd<'static>,
        targets: Vec<RawFd>,
        kinds: &PhaseMarks,
    ) -> io::Result<()> {
        let (source, end) = pipe_with(PipeFlags::CLOEXEC)?;
        never_wait(&source)?;
        let kind = StreamKind::Pipe(Scanner::new(kinds.clone()), Arc::clone(&self.board));
        self.streams.push(self.pump(source, sink, kind).start()?);
        self.pipes.push((end, targets));
        Ok(())
    }

    fn add_terminal(
        &mut self,
        sink: BorrowedFd<'static>,
        targets: Vec<RawFd>,
        kinds: &PhaseMarks,
    ) -> io::Result<()> {
        let terminal = Terminal::like(sink)?;
        let source = Arc::clone(&terminal.master);
        let kind = StreamKind::Terminal(Scanner::new(kinds.clone()), Arc::clone(&self.board));
        self.streams.push(self.pump(source, sink, kind).start()?);
        self.on_terminal = targets;
        if terminal.typed {
            self.on_terminal.push(stdin().as_raw_fd());
        }
        self.terminal = Some(terminal);
        Ok(())
    }

    /// Whether the command becomes the leader of a session of its own: it then gets no signal from the agent's terminal or group.
    pub(crate) fn own_session(&self) -> bool {
        self.terminal.is_some()
    }

    /// Connects the command's streams.
    pub(crate) fn connect(&self, files: &mut PosixSpawnFileActions) -> Result<(), Errno> {
        for (pipe, targets) in &self.pipes {
            targets.iter().try_for_each(|target| files.add_dup2(pipe.as_raw_fd(), *target))?;
        }
        if let (Some(terminal), Some((first, others))) = (&self.terminal, self.on_terminal.split_first()) {
            let path: &CString = &terminal.path;
            // the first terminal that the leader of a session opens becomes its controlling terminal
            files.add_open(*first, path.as_c_str(), OFlag::O_RDWR, Mode::empty())?;
            others.iter().try_for_each(|other| files.add_dup2(*first, *other))?;
        }
        Ok(())
    }

    /// Lets the real terminal pass everything through; right before the command starts, whose first words must not go through the
    /// settings of both terminals.
    pub(crate) fn take_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal
            && let Err(error) = terminal.take_over()
        {
            tracing::warn!(%error, "the terminal does not take part in the build");
        }
    }

    /// The command runs: its ends are its own from now on, and what is typed goes to it.
    pub(crate) fn started(&mut self) {
        self.pipes.clear();
        let Some(terminal) = &mut self.terminal else { return };
        terminal.slave = None;
        if terminal.is_taken()
            && terminal.typed
            && let Err(error) = type_into(terminal, &self.stop)
        {
            tracing::warn!(%error, "typed input does not reach the build");
        }
    }

    /// The next change of phase. May be dropped and called again.
    pub(crate) async fn next_change(&self) -> PhaseChange {
        self.board.next().await
    }

    /// As [`Self::next_change`], if there is one.
    pub(crate) fn take_change(&self) -> Option<PhaseChange> {
        self.board.take()
    }

    /// The end of what the build wrote so far, on both streams; more than a question takes, for the sake of [`Secrets::mask`].
    ///
    /// [`Secrets::mask`]: crate::key::Secrets::mask
    pub(crate) fn log_tail(&self) -> Vec<u8> {
        self.board.tail.copy()
    }

    /// The real terminal has another size.
    pub(crate) fn resized(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.resize();
        }
    }

    /// Does what a key on the build's terminal does. Returns whether the process `build` leads those in its foreground.
    pub(crate) fn key(&self, signal: Signal, build: Pid) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.signal(signal, build))
    }

    /// Writes on what the command left, after its end. What still holds a stream after [`GRACE`] loses its reader: a daemon that
    /// goes on writing gets SIGPIPE or EPIPE. Waits for a reader that is slow as long as it takes, as the build would have; may be
    /// dropped and called again.
    pub(crate) async fn drain(&mut self) {
        // it cannot fail: nothing is ever sent, only the end counts
        if timeout(GRACE, ends(&mut self.streams)).await.is_err() {
            self.stop.stop();
            ends(&mut self.streams).await;
        }
    }

    /// Lets go of the streams and restores the terminal.
    pub(crate) fn close(mut self) {
        self.stop.stop();
        if let Some(terminal) = &mut self.terminal {
            terminal.give_back();
        }
        if let Some(lost) = self.lost.in_words() {
            say(&format!("plimsoll: {lost}"));
        }
        let skipped = self.board.skipped();
        if skipped > 0 {
            tracing::info!(skipped, "phases came faster than they could be measured");
        }
    }
}

async fn ends(streams: &mut Vec<oneshot::Receiver<()>>) {
    while let Some(stream) = streams.first_mut() {
        let _ended = stream.await;
        streams.swap_remove(0);
    }
}

/// What is typed goes to the build.
fn type_into(terminal: &Terminal, stop: &PumpStop) -> io::Result<()> {
    let sink = Arc::clone(&terminal.master);
    let lost = Arc::default();
    Pump { source: stdin(), sink, stop: stop.clone(), lost, kind: StreamKind::Typed }.start().map(drop)
}

/// Whether two descriptors are the same file, pipe, socket or terminal.
fn same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => {
            (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
        }
        _ => false,
    }
}
