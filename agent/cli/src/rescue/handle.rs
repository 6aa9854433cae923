//! Signals to a process that was seen before: never to another one that has its id now.

use std::io;

use plimsoll_measure::processes::ProcessId;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// Sends a signal to a process, if it still is the one that was seen. Returns false if it has ended.
/// Errors: the agent may not signal it, or is short of something, such as open files.
pub(super) fn send(id: ProcessId, signal: Signal) -> io::Result<bool> {
    let Some(pid) = Some(id.pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) else { return Ok(false) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        // the second and third if the id is a thread's now
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(false),
        handle => handle?,
    };
    // the handle is of whichever process has the id now; what it is cannot change any more
    if !id.exists()? {
        return Ok(false);
    }
    match pidfd_send_signal(&handle, signal) {
        Err(Errno::SRCH) => Ok(false),
        sent => Ok(sent.map(|()| true)?),
    }
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
        assert!(!send(other, Signal::KILL).unwrap());
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        assert!(send(id, Signal::TERM).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(!send(id, Signal::TERM).unwrap(), "it has ended");
        for pid in [0, -1, i32::MIN] {
            assert!(!send(ProcessId { started: 0, pid }, Signal::TERM).unwrap(), "{pid}");
        }
    }
}
