//! Reads the build's output while it passes through the agent.
//!
//! If phases are wanted, the build writes to the agent, not to the job's log. The agent forwards the output
//! ([`pump`]) and finds phases in it ([`markers`], [`tracker`], [`phase_board`]). A terminal is replaced by
//! another terminal ([`terminal`]) if phases are wanted there too; otherwise the build keeps it. Other streams
//! are replaced by pipes. If standard output and standard error are the same (`2>&1`), they share one pipe, so
//! that their lines stay in order. If this cannot be set up, the build gets the original streams and has no
//! phases.

mod build_log;
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

use nix::{errno::Errno, fcntl::OFlag, spawn::PosixSpawnFileActions, sys::stat::Mode, unistd::Pid};
use rustix::{
    fs::fstat,
    pipe::{PipeFlags, pipe_with},
    process::Signal,
    stdio::{stderr, stdin, stdout},
    termios::isatty,
};
use tokio::{sync::oneshot, time::timeout};

use crate::{key::Secrets, standard_error::write_line};

pub use markers::{BUILD_TOOLS, PATTERNS, PHASE_TOOLS, Pattern, PhaseMarks, PhaseTool};
pub(crate) use phase_board::PhaseChange;

use markers::Scanner;
use phase_board::PhaseBoard;
use pump::{DroppedOutput, Pump, PumpStop, StreamKind, set_nonblocking};
use terminal::{Terminal, in_foreground};

/// How long a stream may stay open after the command has ended. A `tee` that the shell started (`exec > >(tee
/// log)`) ends within this time. A process that keeps a stream open for longer is a daemon, and the agent does
/// not wait for it.
const OPEN_STREAM_GRACE: Duration = Duration::from_millis(500);

/// The streams of a command before its start and while it runs. Dropping this value restores the terminal.
#[derive(Debug)]
pub(crate) struct Output {
    board: Arc<PhaseBoard>,
    dropped: Arc<DroppedOutput>,
    stop: PumpStop,
    /// For each stream, a receiver that is closed when the stream has ended.
    streams: Vec<oneshot::Receiver<()>>,
    /// Pipe ends for the command, and the descriptor numbers that each gets in the command.
    pipes: Vec<(OwnedFd, Vec<RawFd>)>,
    terminal: Option<Terminal>,
    on_terminal: Vec<RawFd>,
}

impl Output {
    /// Prepares the streams before the command starts, so that nothing can fail after its start. `None` if that
    /// fails: the command then gets the agent's streams.
    pub(crate) fn prepare(kinds: &PhaseMarks) -> Option<Self> {
        Self::set_up(kinds)
            .inspect_err(|error| tracing::warn!(%error, "the output is not read, so the build has no phases"))
            .ok()
    }

    fn set_up(kinds: &PhaseMarks) -> io::Result<Self> {
        let mut output = Self {
            board: Arc::new(PhaseBoard::default()),
            dropped: Arc::default(),
            stop: PumpStop::new()?,
            streams: Vec::new(),
            pipes: Vec::new(),
            terminal: None,
            on_terminal: Vec::new(),
        };
        let one = is_same_file(stdout(), stderr());
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
            // otherwise the build inherits the stream: a terminal that is not to be read, a second terminal, or
            // a terminal while the agent is in the background
        }
        Ok(output)
    }

    fn pump<S>(
        &self,
        source: S,
        sink: BorrowedFd<'static>,
        kind: StreamKind,
    ) -> Pump<S, BorrowedFd<'static>> {
        Pump { source, sink, stop: self.stop.clone(), dropped: Arc::clone(&self.dropped), kind }
    }

    fn add_pipe(
        &mut self,
        sink: BorrowedFd<'static>,
        targets: Vec<RawFd>,
        kinds: &PhaseMarks,
    ) -> io::Result<()> {
        let (source, end) = pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(&source)?;
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
        let terminal = Terminal::like_real(sink)?;
        let source = Arc::clone(&terminal.agent_side);
        let kind = StreamKind::Terminal(Scanner::new(kinds.clone()), Arc::clone(&self.board));
        self.streams.push(self.pump(source, sink, kind).start()?);
        self.on_terminal = targets;
        if terminal.forwards_input {
            self.on_terminal.push(stdin().as_raw_fd());
        }
        self.terminal = Some(terminal);
        Ok(())
    }

    /// Whether the command becomes the leader of a new session. It then gets no signals from the agent's
    /// terminal or process group.
    pub(crate) fn own_session(&self) -> bool {
        self.terminal.is_some()
    }

    /// Connects the prepared streams to the command that is about to start.
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

    /// Puts the real terminal in raw mode. Call this right before the command starts: otherwise its first
    /// output would be changed by the settings of both terminals.
    pub(crate) fn take_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal
            && let Err(error) = terminal.take_over()
        {
            tracing::warn!(%error, "the terminal does not take part in the build");
        }
    }

    /// Call this after the command's start: closes the agent's copies of the command's descriptors, and starts
    /// to forward typed input.
    pub(crate) fn started(&mut self) {
        self.pipes.clear();
        let Some(terminal) = &mut self.terminal else { return };
        terminal.build_side = None;
        if terminal.is_raw()
            && terminal.forwards_input
            && let Err(error) = forward_input(terminal, &self.stop)
        {
            tracing::warn!(%error, "typed input does not reach the build");
        }
    }

    /// Waits for the next change of phase. The future may be dropped and the method called again.
    pub(crate) async fn next_change(&self) -> PhaseChange {
        self.board.next().await
    }

    /// Like [`Self::next_change`], but does not wait.
    pub(crate) fn take_change(&self) -> Option<PhaseChange> {
        self.board.take_change()
    }

    /// What is sent of the build's output so far, from both streams, with secrets masked. It is given once.
    pub(crate) fn take_log(&self, secrets: &Secrets) -> Vec<u8> {
        self.board.build_log.take(secrets)
    }

    /// Passes the new size of the real terminal on to the build's terminal. Call this when the real terminal has changed its size.
    pub(crate) fn copy_size(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.resize();
        }
    }

    /// Sends the signal of a key to the build's terminal. Returns whether the process `build` leads the
    /// terminal's foreground group, and so has got the signal.
    pub(crate) fn key(&self, signal: Signal, build: Pid) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.signal(signal, build))
    }

    /// Forwards the rest of the output after the command has ended. If a process still has a stream open after
    /// [`OPEN_STREAM_GRACE`], the stream is closed: a daemon that writes to it gets SIGPIPE or EPIPE. Waits for a slow
    /// reader of the log as long as needed, as the build would have done. The future may be dropped and the
    /// method called again.
    pub(crate) async fn drain(&mut self) {
        // the streams' channels carry no messages; they only close when the streams end
        if timeout(OPEN_STREAM_GRACE, wait_for_ends(&mut self.streams)).await.is_err() {
            self.stop.stop();
            wait_for_ends(&mut self.streams).await;
        }
    }

    /// Closes the streams, restores the terminal, and reports lost output.
    pub(crate) fn close(mut self) {
        self.stop.stop();
        if let Some(terminal) = &mut self.terminal {
            terminal.give_back();
        }
        if let Some(lost) = self.dropped.in_words() {
            write_line(&format!("plimsoll: {lost}"));
        }
        let skipped = self.board.skipped();
        if skipped > 0 {
            tracing::info!(skipped, "phases came faster than they could be measured");
        }
    }
}

async fn wait_for_ends(streams: &mut Vec<oneshot::Receiver<()>>) {
    while let Some(stream) = streams.first_mut() {
        let _ended = stream.await;
        streams.swap_remove(0);
    }
}

/// Starts to forward typed input to the build.
fn forward_input(terminal: &Terminal, stop: &PumpStop) -> io::Result<()> {
    let sink = Arc::clone(&terminal.agent_side);
    let lost = Arc::default();
    Pump { source: stdin(), sink, stop: stop.clone(), dropped: lost, kind: StreamKind::Typed }
        .start()
        .map(drop)
}

/// Whether two descriptors are the same file, pipe, socket or terminal.
fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => {
            (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
        }
        _ => false,
    }
}
