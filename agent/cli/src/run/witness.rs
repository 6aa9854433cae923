//! A second member of the agent's process group, which shows what was sent to the whole group.
//!
//! It is this program again, with all signals blocked, so that they stay pending. It sleeps until the agent asks
//! which have arrived since the last time, and ends with the agent. The kernel signals the newest member of a group
//! first (`attach_pid` puts it at the head of the list that `kill_pgrp` walks), so the witness has each signal
//! before the agent can read it.

use std::{
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    process::ExitCode,
    time::Duration,
};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use plimsoll_measure::proctree::{AgentProcess, leave_out};
use rustix::process::Signal as AnySignal;

use super::end_requests::STOPPING;
use crate::own_process;

/// The name under which this program is a witness. It does not contain the program's, so that who signals all processes of that name does not
/// look like one who signals the group.
pub(crate) const WITNESS_NAME: &str = "signal-witness";
/// How long the agent waits for an answer, which takes microseconds, before the sender decides instead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 1 });
/// Number of signals; a count of arrivals for each is what the witness answers.
const SIGNALS: usize = 64;
/// Bytes of an answer: the number of its question, and the counts.
const ANSWER_BYTES: usize = 1 + SIGNALS;

#[cfg(not(test))]
const ARGUMENTS: [&CStr; 1] = [c"signal-witness"];
#[cfg(test)]
const ARGUMENTS: [&CStr; 4] = [c"agent", c"--exact", c"run::tests::witness_process", c"--ignored"];

/// The witness of this process.
#[derive(Debug)]
pub(super) struct Witness {
    socket: UnixStream,
    pid: Pid,
    /// How often each signal of the group has arrived, less what the agent has read of it.
    unread: [u8; SIGNALS],
    question: u8,
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
        let (socket, pid) = own_process::start(AgentProcess::Witness, &ARGUMENTS, ANSWER_TIMEOUT)?;
        Ok(Self { socket, pid, unread: [0; SIGNALS], question: 0 })
    }

    /// Whether the group has got this signal, which has arrived at the agent. `None` if the witness does not answer in time.
    /// Errors: the witness has ended.
    pub(super) fn has_got(&mut self, signal: AnySignal) -> io::Result<Option<bool>> {
        self.question = self.question.wrapping_add(1);
        self.socket.write_all(&[self.question])?;
        loop {
            let mut answer = [0; ANSWER_BYTES];
            match self.socket.read_exact(&mut answer) {
                Err(late) if late.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                read => read?,
            }
            let [question, counts @ ..] = answer;
            self.unread.iter_mut().zip(counts).for_each(|(all, more)| *all = all.saturating_add(more));
            // answers to questions that were given up come first
            if question == self.question {
                return Ok(Some(self.take(signal)));
            }
        }
    }

    fn take(&mut self, signal: AnySignal) -> bool {
        let continued = self.unread.get(index(AnySignal::CONT)).is_some_and(|count| *count > 0);
        let Some(count) = self.unread.get_mut(index(signal)).filter(|count| **count > 0) else {
            // SIGCONT takes away a stop that the witness had not read
            return STOPPING.contains(&signal) && continued;
        };
        *count -= 1;
        true
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // its id may be another process's, if it has ended and was waited for with the other children
        if waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
            let _gone = kill(self.pid, Signal::SIGKILL).and_then(|()| waitpid(self.pid, None));
        }
        leave_out(AgentProcess::Witness, 0);
    }
}

fn index(signal: AnySignal) -> usize {
    usize::try_from(signal.as_raw().saturating_sub(1)).unwrap_or(usize::MAX)
}

/// The life of a witness; standard input is the agent.
pub(crate) fn serve() -> ExitCode {
    // as the agent protects itself, where it has the right to; a kill of the whole group would count it with the build
    let _allowed = std::fs::write("/proc/self/oom_score_adj", "-1000");
    match answer_until_end() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_gone) => ExitCode::FAILURE,
    }
}

fn answer_until_end() -> io::Result<()> {
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let arrived = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut question = [0];
    while agent.read(&mut question)? == 1 {
        let [question] = question;
        let mut answer = [0_u8; ANSWER_BYTES];
        let [number, ..] = &mut answer;
        *number = question;
        for signal in std::iter::from_fn(|| arrived.read_signal().ok()?) {
            // the first byte is the question, so a signal's number is its place
            let place = usize::try_from(signal.ssi_signo).unwrap_or(usize::MAX);
            if let Some(count) = answer.get_mut(place) {
                *count = count.saturating_add(1);
            }
        }
        agent.write_all(&answer)?;
    }
    Ok(())
}
