//! A terminal for the build, if the agent was started on one.
//!
//! The build gets a pseudo-terminal with the settings and the size of the real one, as the controlling terminal of its own session. Typed
//! input is forwarded unchanged: the real terminal is in raw mode meanwhile, and signal keys take effect in the build's terminal. Colours
//! and progress bars work. Ctrl-Z does nothing, because no shell could continue the build.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use nix::{
    sys::signal::{SigSet, Signal, killpg},
    unistd::Pid,
};
use rustix::{
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt},
    stdio::stdin,
    termios::{
        OptionalActions, OutputModes, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
        tcsetwinsize,
    },
};

use super::pump::never_wait;

/// The build's terminal, and the real one behind it.
#[derive(Debug)]
pub(super) struct Terminal {
    /// The agent's side.
    pub(super) master: Arc<OwnedFd>,
    /// Where the build opens its side.
    pub(super) path: CString,
    /// The build's side, until the build has opened it: without it the agent's side would seem closed.
    pub(super) slave: Option<OwnedFd>,
    real: BorrowedFd<'static>,
    /// Whether typed input is forwarded to the build.
    pub(super) typed: bool,
    /// Settings of the real one, to be restored.
    before: Vec<(BorrowedFd<'static>, Termios)>,
}

impl Terminal {
    /// Creates a terminal like the real one, `real`.
    ///
    /// # Errors
    /// The system has no terminals left.
    pub(super) fn like(real: BorrowedFd<'static>) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        let slave =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        tcsetattr(&slave, OptionalActions::Now, &tcgetattr(real)?)?;
        never_wait(&master)?;
        let typed = isatty(stdin());
        let terminal =
            Self { master: Arc::new(master), path, slave: Some(slave), real, typed, before: Vec::new() };
        terminal.resize();
        Ok(terminal)
    }

    /// Copies the size of the real terminal to the build's.
    pub(super) fn resize(&self) {
        let resized = tcgetwinsize(self.real).and_then(|size| tcsetwinsize(&*self.master, size));
        if let Err(error) = resized {
            tracing::debug!(%error, "cannot set the size of the build's terminal");
        }
    }

    /// Puts the real terminal in raw mode; only its output if no input is forwarded.
    pub(super) fn take_over(&mut self) -> io::Result<()> {
        // restoring must work even from the background, which this signal would prevent
        SigSet::from(Signal::SIGTTOU).thread_block()?;
        let mut settings = vec![self.real];
        if self.typed {
            settings.push(stdin());
        }
        for fd in settings {
            let before = tcgetattr(fd)?;
            let mut raw = before.clone();
            if self.typed {
                raw.make_raw();
            }
            raw.output_modes.remove(OutputModes::OPOST);
            // earlier output has passed already; waiting for a stopped terminal would delay the build
            tcsetattr(fd, OptionalActions::Now, &raw)?;
            self.before.push((fd, before));
        }
        Ok(())
    }

    /// Whether the real terminal is in raw mode.
    pub(super) fn is_taken(&self) -> bool {
        !self.before.is_empty()
    }

    /// Restores the real terminal.
    pub(super) fn give_back(&mut self) {
        // in reverse: two descriptors may be one terminal
        while let Some((fd, before)) = self.before.pop() {
            if let Err(error) = tcsetattr(fd, OptionalActions::Drain, &before) {
                tracing::debug!(%error, "cannot restore the terminal");
            }
        }
    }

    /// Sends a signal to the foreground group of the build's terminal, as its keys do. Returns whether `build` leads that group.
    pub(super) fn signal(&self, signal: Signal, build: Pid) -> bool {
        let sent = tcgetpgrp(&*self.master).map_err(io::Error::from).and_then(|group| {
            let group = Pid::from_raw(group.as_raw_nonzero().get());
            killpg(group, signal)?;
            Ok(group)
        });
        sent.inspect_err(
            |error| tracing::debug!(%error, %signal, "cannot pass a signal on to the build's terminal"),
        )
        .is_ok_and(|group| group == build)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whether this process may change the terminal: in the background that would stop it.
pub(super) fn in_foreground(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
