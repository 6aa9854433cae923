//! Gives the build a terminal of its own, if the agent was started on one.
//!
//! The build gets a pseudo-terminal with the settings and the size of the real terminal. It is the controlling
//! terminal of a new session for the build. The real terminal is in raw mode meanwhile, so that typed input
//! reaches the build's terminal unchanged, and signal keys take effect there. Colours and progress bars work as
//! usual. Ctrl-Z does nothing, because no shell could continue the build. The agent blocks SIGTTOU, so that it can
//! restore the terminal from the background, too.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use nix::unistd::Pid;
use rustix::{
    process::{Signal, kill_process_group},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt},
    stdio::stdin,
    termios::{
        OptionalActions, OutputModes, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
        tcsetwinsize,
    },
};

use super::pump::set_nonblocking;

/// The build's terminal, and the real terminal that it replaces.
#[derive(Debug)]
pub(super) struct Terminal {
    /// The side of the build's terminal that the agent reads and writes.
    pub(super) agent_side: Arc<OwnedFd>,
    /// Path at which the build opens its side.
    pub(super) path: CString,
    /// The build's side, kept open until the build has opened it: without it the agent would read the end of
    /// the stream.
    pub(super) build_side: Option<OwnedFd>,
    real_side: BorrowedFd<'static>,
    /// Whether the agent forwards typed input to the build.
    pub(super) forwards_input: bool,
    /// Original settings of the real terminal, to restore them.
    before: Vec<(BorrowedFd<'static>, Termios)>,
}

impl Terminal {
    /// Creates a terminal with the settings and the size of `real`.
    /// Errors: the system has no terminals left.
    pub(super) fn like_real(real: BorrowedFd<'static>) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        let slave =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        tcsetattr(&slave, OptionalActions::Now, &tcgetattr(real)?)?;
        set_nonblocking(&master)?;
        let typed = isatty(stdin());
        let terminal = Self {
            agent_side: Arc::new(master),
            path,
            build_side: Some(slave),
            real_side: real,
            forwards_input: typed,
            before: Vec::new(),
        };
        terminal.resize();
        Ok(terminal)
    }

    /// Copies the size of the real terminal to the build's terminal.
    pub(super) fn resize(&self) {
        let resized = tcgetwinsize(self.real_side).and_then(|size| tcsetwinsize(&*self.agent_side, size));
        if let Err(error) = resized {
            tracing::debug!(%error, "cannot set the size of the build's terminal");
        }
    }

    /// Puts the real terminal in raw mode. If no input is forwarded, only its output settings change.
    pub(super) fn take_over(&mut self) -> io::Result<()> {
        let mut settings = vec![self.real_side];
        if self.forwards_input {
            settings.push(stdin());
        }
        for fd in settings {
            let before = tcgetattr(fd)?;
            let mut raw = before.clone();
            if self.forwards_input {
                raw.make_raw();
            }
            raw.output_modes.remove(OutputModes::OPOST);
            // apply at once: earlier output was already processed, and waiting for a stopped terminal would
            // delay the build
            tcsetattr(fd, OptionalActions::Now, &raw)?;
            self.before.push((fd, before));
        }
        Ok(())
    }

    /// Whether the real terminal is in raw mode now.
    pub(super) fn is_raw(&self) -> bool {
        !self.before.is_empty()
    }

    /// Restores the original settings of the real terminal.
    pub(super) fn give_back(&mut self) {
        // in reverse order: two descriptors may be the same terminal, and the first entry has its original
        // settings
        while let Some((fd, before)) = self.before.pop() {
            if let Err(error) = tcsetattr(fd, OptionalActions::Drain, &before) {
                tracing::debug!(%error, "cannot restore the terminal");
            }
        }
    }

    /// Sends a signal to the foreground process group of the build's terminal, as its signal keys do. Returns
    /// whether the process `build` leads that group.
    pub(super) fn signal(&self, signal: Signal, build: Pid) -> bool {
        let sent = tcgetpgrp(&*self.agent_side)
            .and_then(|group| kill_process_group(group, signal).map(|()| group.as_raw_pid()));
        sent.inspect_err(
            |error| tracing::debug!(%error, ?signal, "cannot pass a signal on to the build's terminal"),
        )
        .is_ok_and(|group| group == build.as_raw())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whether this process may change the terminal's settings: the kernel stops a background process that tries.
pub(super) fn in_foreground(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
