//! Starts the command and detects its end.
//!
//! The command inherits everything from the agent: streams, environment, directory, process group, session and
//! signal mask. If its output is read, it gets other streams, and if one of them is a terminal, a new session.
//! `posix_spawn` does all this without any code of the agent between fork and exec, and reports at once whether
//! the command could be executed.
//!
//! One exception: in the command SIGPIPE has its default action, even if it was ignored when the agent was
//! started. Rust's runtime ignores it before `main`, so the original setting is unknown, and builds with pipes
//! need the default.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use nix::{
    errno::Errno,
    libc::POSIX_SPAWN_SETSID,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::signal::{SigSet, Signal},
    unistd::Pid,
};
use plimsoll_proto::v1::Exit;
use rustix::process::{self, Signal as AnySignal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::signal::unix::{self, SignalKind};

use super::{
    end_requests::STOPPING,
    unmeasured::{SHELL, note_start, under_shell},
};
use crate::{key::TOKEN_VARIABLE, output::Output};

/// Interval for polling the end of the command, if the kernel's signal for it cannot be received.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running command. It waits for all children of this process: as process 1 of a container, or as the process
/// that adopts the build's daemons, the agent gets children that it did not start.
#[derive(Debug)]
pub(super) struct ChildProcess {
    pid: Pid,
    child_changes: Option<unix::Signal>,
    exit: Option<Exit>,
    /// Whether a signal for job control has stopped the command.
    stopped: bool,
    /// Whether all children that have ended or stopped were waited for, since the last signal of one.
    is_reaped: bool,
}

/// Listens for the signal that a child has ended or stopped. Call this before the first child is started.
pub(super) fn listen() -> Option<unix::Signal> {
    unix::signal(SignalKind::child())
        .inspect_err(|error| tracing::debug!(%error, "the end of the command is polled for"))
        .ok()
}

/// Starts a command with the signal mask `mask` and the streams of `output`, or the agent's without it.
/// `variables` replace those of the agent's environment. The agent's token is removed.
pub(super) fn start(
    command: &[OsString],
    variables: &[(OsString, OsString)],
    mask: &SigSet,
    output: Option<&Output>,
) -> Result<Pid, Errno> {
    let arguments: Vec<CString> = command.iter().map(|word| to_c_string(word)).collect::<Result<_, _>>()?;
    let name = arguments.first().ok_or(Errno::ENOENT)?;
    let variable = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        to_c_string(&name)
    };
    // the build must not get the agent's token: with it, it could act as the agent
    let inherited = std::env::vars_os()
        .filter(|(name, _)| name != TOKEN_VARIABLE && !variables.iter().any(|(changed, _)| changed == name));
    let environment: Vec<CString> =
        inherited.chain(variables.iter().cloned()).map(variable).collect::<Result<_, _>>()?;
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
    if output.is_some_and(Output::own_session) {
        // nix has no name for this flag, which glibc 2.26 and musl 1.1.17 support
        flags |= PosixSpawnFlags::from_bits_retain(POSIX_SPAWN_SETSID.into());
    }
    attributes.set_flags(flags)?;
    attributes.set_sigmask(mask)?;
    attributes.set_sigdefault(&Signal::SIGPIPE.into())?;
    let mut files = PosixSpawnFileActions::init()?;
    if let Some(output) = output {
        output.connect(&mut files)?;
    }
    match posix_spawnp(name, &files, &attributes, &arguments, &environment) {
        Err(Errno::ENOEXEC) if name.as_bytes() != SHELL.as_bytes() => {
            start(&under_shell(command), variables, mask, output)
        }
        started => started.inspect(|_pid| note_start()),
    }
}

fn to_c_string(text: &OsStr) -> Result<CString, Errno> {
    CString::new(text.as_bytes()).map_err(|_zero| Errno::EINVAL)
}

impl ChildProcess {
    /// The child process `pid`; `child_changes` receives the signal that a child has ended or stopped.
    pub(super) fn new(pid: Pid, child_changes: Option<unix::Signal>) -> Self {
        Self { pid, child_changes, exit: None, stopped: false, is_reaped: false }
    }

    /// The command's process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the command. This is safe even if the command has just ended: its process id is not
    /// reused before the agent has waited for it.
    pub(super) fn signal(&self, signal: AnySignal) {
        let pid = process::Pid::from_raw(self.pid.as_raw()).filter(|_pid| self.exit.is_none());
        if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
            tracing::debug!(%error, ?signal, "cannot pass a signal on");
        }
    }

    /// Waits until the command itself has ended, or a signal for job control has stopped it (`None`); its background
    /// processes may go on. The future may be dropped and the method called again.
    pub(super) async fn change(&mut self) -> Option<Exit> {
        loop {
            let stopped_before = self.stopped;
            // without the kernel's signal each look reads anew
            if self.child_changes.is_none() || !std::mem::replace(&mut self.is_reaped, true) {
                self.reap();
            }
            if self.exit.is_some() || self.stopped && !stopped_before {
                return self.exit;
            }
            match &mut self.child_changes {
                Some(changed) => {
                    changed.recv().await;
                }
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
            self.is_reaped = false;
        }
    }

    /// Whether a signal for job control has stopped the command, and it was not continued.
    pub(super) fn is_stopped(&mut self) -> bool {
        self.reap();
        self.stopped
    }

    fn note(&mut self, status: WaitStatus) {
        self.stopped = status
            .stopping_signal()
            .is_some_and(|number| STOPPING.iter().any(|signal| signal.as_raw() == number));
        if !status.stopped() && !status.continued() {
            self.exit = Some(Exit { code: status.exit_status(), signal: status.terminating_signal() });
        }
    }

    /// Collects the exit status of each child that has ended.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
                Ok(Some((pid, status))) if pid.as_raw_pid() == self.pid.as_raw() => self.note(status),
                Ok(Some(_daemon)) => {}
                Err(error) if io::Error::from(error).kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.exit.is_none() => {
                    // another thread or library has taken the command's exit status; it cannot be read again
                    tracing::warn!(%error, "the exit status of the command was not seen");
                    self.exit = Some(Exit::default());
                    return;
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// The exit code of the agent for this end of the command.
pub(super) fn exit_code(exit: Exit) -> u8 {
    let code = match (exit.code, exit.signal) {
        (Some(code), _signal) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::unmeasured::exit_code_of, *};

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(Exit { code: Some(3), signal: None }), 3);
        assert_eq!(exit_code(Exit { code: None, signal: Some(9) }), 137);
        assert_eq!(exit_code(Exit { code: None, signal: Some(64) }), 192);
        assert_eq!(exit_code(Exit::default()), 255);
        assert_eq!((exit_code_of(Errno::ENOENT), exit_code_of(Errno::EACCES)), (127, 126));
    }
}
