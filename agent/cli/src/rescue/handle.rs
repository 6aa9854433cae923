//! Signals to a process that was seen before: never to another one that has its id now.

use std::io;

use plimsoll_measure::processes::ProcessId;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Sends a signal to a process, if it still is the one that was seen.
/// Errors: the process has ended, or the agent may not signal it.
pub(super) fn send(id: ProcessId, signal: Signal) -> io::Result<()> {
    let pid =
        Some(id.pid).filter(|pid| *pid > 0).and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // the handle is of whichever process has the id now; what it is cannot change any more
    if ProcessId::of_running(id.pid) != Some(id) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(pidfd_send_signal(&handle, signal)?)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, process::Command};

    use super::*;

    #[test]
    fn only_the_process_seen_is_signalled() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let id = ProcessId::of_running(pid).unwrap();
        let other = ProcessId { started: id.started + 1, ..id };
        assert_eq!(send(other, Signal::KILL).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        send(id, Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(send(id, Signal::TERM).is_err(), "it has ended");
        assert!(send(ProcessId { started: 0, pid: 0 }, Signal::TERM).is_err());
    }
}
