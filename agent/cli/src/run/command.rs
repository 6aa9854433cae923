//! Starts the command and detects its end.
//!
//! The command inherits everything from the agent: streams, environment, directory, process group, session and signal mask. If its output
//! is read, it gets other streams, and if one is a terminal, a session of its own. `posix_spawn` does that without any code between fork
//! and exec, and reports at once whether the command could be executed.
//!
//! One exception: SIGPIPE has its default action in the command, even if it was ignored when the agent started. Rust's runtime ignores it
//! before `main`, so the original setting is unknown, and builds with pipes need the default.
//! started. Rust's runtime ignores it before `main`, so what it was cannot be seen any more, and builds with pipes need the default.

use std::{
    ffi::{CString, OsString},
    io,
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use nix::{
    errno::Errno,
    libc::POSIX_SPAWN_SETSID,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use plimsoll_proto::v1::Exit;
use rustix::process::{WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{self, SignalKind};

use crate::{key::TOKEN_VARIABLE, output::Output};

/// Polling interval for the end of the command, if the kernel's notification is unavailable.
const BLIND_PAUSE: Duration = Duration::from_millis(50);

/// A command that runs. Its owner waits for all children of this process: as reaper of the build's daemons, or as process 1
/// of a container, the agent gets children that it did not start.
#[derive(Debug)]
pub(super) struct ChildProcess {
    pid: Pid,
    ended: Option<unix::Signal>,
    exit: Option<Exit>,
}

/// Listens for the ends of children; before the first one is started.
pub(super) fn listen() -> Option<unix::Signal> {
    unix::signal(SignalKind::child())
        .inspect_err(|error| tracing::debug!(%error, "the end of the command is polled for"))
        .ok()
}

/// Starts a command with the signal mask `mask`, with the streams of the agent or of `output`, and with `variables` replacing the agent's
/// own. The agent's token is removed.
pub(super) fn start(
    command: &[OsString],
    variables: &[(OsString, OsString)],
    mask: &SigSet,
    output: Option<&Output>,
) -> Result<Pid, Errno> {
    let arguments: Vec<CString> = command.iter().map(text).collect::<Result<_, _>>()?;
    let name = arguments.first().ok_or(Errno::ENOENT)?;
    let variable = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        text(&name)
    };
    // the token is the agent's own: the build could use it to impersonate the agent
    let inherited = std::env::vars_os()
        .filter(|(name, _)| name != TOKEN_VARIABLE && !variables.iter().any(|(changed, _)| changed == name));
    let environment: Vec<CString> =
        inherited.chain(variables.iter().cloned()).map(variable).collect::<Result<_, _>>()?;
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
    if output.is_some_and(Output::own_session) {
        // nix has no name for this one; glibc 2.26 and musl 1.1.17 know it
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
        // a script without #! is run by the shell, as every shell does
        Err(Errno::ENOEXEC) if name.as_bytes().contains(&b'/') => {
            let script: Vec<CString> = std::iter::once(c"/bin/sh".to_owned()).chain(arguments).collect();
            posix_spawnp(c"/bin/sh", &files, &attributes, &script, &environment)
        }
        result => result,
    }
}

fn text(text: &OsString) -> Result<CString, Errno> {
    CString::new(text.as_bytes()).map_err(|_zero| Errno::EINVAL)
}

/// The exit code that a shell reports for a command that could not be started.
pub(super) fn exit_code_of(error: Errno) -> u8 {
    if error == Errno::ENOENT { 127 } else { 126 }
}

impl ChildProcess {
    /// The child `pid`; `ended` notifies of its end.
    pub(super) fn new(pid: Pid, ended: Option<unix::Signal>) -> Self {
        Self { pid, ended, exit: None }
    }

    /// The command's process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Passes a signal on. The process may have ended, but is not waited for yet: the number is still its own.
    pub(super) fn signal(&self, signal: Signal) {
        if self.exit.is_none()
            && let Err(error) = kill(self.pid, signal)
        {
            tracing::debug!(%error, %signal, "cannot pass a signal on");
        }
    }

    /// Waits for the end of the command only: background processes continue. The future may be dropped and the method called again.
    pub(super) async fn end(&mut self) -> Exit {
        loop {
            self.reap();
            if let Some(exit) = self.exit {
                return exit;
            }
            match &mut self.ended {
                Some(ended) => {
                    ended.recv().await;
                }
                None => tokio::time::sleep(BLIND_PAUSE).await,
            }
        }
    }

    /// Waits for all children that have ended.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid.as_raw_pid() == self.pid.as_raw() => {
                    self.exit = Some(exit(status));
                }
                Ok(Some(_daemon)) => {}
                Err(error) if io::Error::from(error).kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.exit.is_none() => {
                    // another thread or library has waited for the command; there is nothing left to wait for
                    tracing::warn!(%error, "the exit status of the command was not seen");
                    self.exit = Some(Exit::default());
                    return;
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

fn exit(status: WaitStatus) -> Exit {
    Exit { code: status.exit_status(), signal: status.terminating_signal() }
}

/// The agent's exit code for the command's end.
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
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(Exit { code: Some(3), signal: None }), 3);
        assert_eq!(exit_code(Exit { code: None, signal: Some(9) }), 137);
        assert_eq!(exit_code(Exit { code: None, signal: Some(64) }), 192);
        assert_eq!(exit_code(Exit::default()), 255);
        assert_eq!((exit_code_of(Errno::ENOENT), exit_code_of(Errno::EACCES)), (127, 126));
    }
}
