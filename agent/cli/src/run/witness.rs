//! A second member of the agent's process group, which shows what was sent to the whole group.
//!
//! It is this program again, with all signals blocked, so that they stay pending. It sleeps until the agent asks
//! which have arrived since the last time, and ends with the agent. The kernel signals the newest member of a group
//! first (`attach_pid` puts it at the head of the list that `kill_pgrp` walks), so the witness has each signal
//! before the agent can read it.

use std::{
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::net::UnixStream,
    },
    process::ExitCode,
    time::Duration,
};

use nix::{
    fcntl::OFlag,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        stat::Mode,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use plimsoll_measure::proctree::leave_out;
use rustix::process::Signal as AnySignal;

/// The word on the command line of this program that makes it a witness.
pub(crate) const WITNESS_COMMAND: &str = "signal-witness";
/// How long the agent waits for an answer, which takes microseconds, before it goes on without the witness.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(not(test))]
const ARGUMENTS: [&CStr; 2] = [c"plimsoll", c"signal-witness"];
#[cfg(test)]
const ARGUMENTS: [&CStr; 4] = [c"agent", c"--exact", c"run::tests::witness_process", c"--ignored"];

/// The witness of this process.
#[derive(Debug)]
pub(super) struct Witness {
    socket: UnixStream,
    pid: Pid,
    /// Signals of the group that the agent has not read yet; bit n - 1 is signal n.
    unread: u64,
}

impl Witness {
    /// Starts the witness; `None` if that fails.
    pub(super) fn start() -> Option<Self> {
        Self::spawn()
            .inspect_err(
                |error| tracing::debug!(%error, "signals of the process group look like the agent's own"),
            )
            .ok()
    }

    fn spawn() -> io::Result<Self> {
        let (socket, other) = UnixStream::pair()?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
        attributes.set_sigmask(&SigSet::all())?;
        let mut files = PosixSpawnFileActions::init()?;
        // the reader of the job's log must not wait for it
        for output in [1, 2] {
            files.add_open(output, c"/dev/null", OFlag::O_WRONLY, Mode::empty())?;
        }
        files.add_dup2(other.as_raw_fd(), 0)?;
        let environment: [&CStr; 0] = [];
        let pid = posix_spawn(c"/proc/self/exe", &files, &attributes, &ARGUMENTS, &environment)?;
        leave_out(pid.as_raw());
        Ok(Self { socket, pid, unread: 0 })
    }

    /// Whether the group has got this signal, which has arrived at the agent. `None` if the witness does not answer.
    pub(super) fn has_got(&mut self, signal: AnySignal) -> Option<bool> {
        let mut answer = [0; 8];
        self.socket.write_all(&[0]).and_then(|()| self.socket.read_exact(&mut answer)).ok()?;
        self.unread |= u64::from_le_bytes(answer);
        let found = contains(self.unread, signal);
        if found {
            self.unread &= !(1 << signal.as_raw().saturating_sub(1));
        }
        Some(found)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // its id may be another process's, if it has ended and was waited for with the other children
        if waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
            let _gone = kill(self.pid, Signal::SIGKILL).and_then(|()| waitpid(self.pid, None));
        }
        leave_out(0);
    }
}

/// Whether a set of signals has this one; bit n - 1 is signal n.
pub(super) fn contains(set: u64, signal: AnySignal) -> bool {
    set >> signal.as_raw().saturating_sub(1) & 1 == 1
}

/// The life of a witness; standard input is the agent.
pub(crate) fn serve() -> ExitCode {
    match answer_until_end() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_gone) => ExitCode::FAILURE,
    }
}

fn answer_until_end() -> io::Result<()> {
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let arrived = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    while agent.read(&mut [0])? == 1 {
        let numbers = std::iter::from_fn(|| Some(arrived.read_signal().ok()??.ssi_signo));
        let set = numbers.fold(0_u64, |set, number| set | 1_u64.unbounded_shl(number.saturating_sub(1)));
        agent.write_all(&set.to_le_bytes())?;
    }
    Ok(())
}
