//! Tells a signal to the whole process group from one to the agent alone.
//!
//! Both look the same to the agent, but the build has got the first one by itself, and must not get it twice: many programs take a
//! second one for "at once". The witness is a process in the same group that blocks all signals and waits for the agent's
//! end; a signal to the group stays pending there, and the kernel shows that (proc(5), `ShdPnd`). The kernel signals the youngest
//! member of a group first, so the witness has a signal before the agent does. Where there is no witness, signals are passed on.

use std::{
    fs,
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{
        signal::{SigSet, Signal},
        stat::Mode,
    },
    unistd::Pid,
};
use rustix::pipe::{PipeFlags, pipe_with};

/// The witness of one process group. It ends when this is dropped, or the agent dies.
#[derive(Debug)]
pub(super) struct Witness {
    pid: Pid,
    /// The witness reads the other end.
    _alive: OwnedFd,
}

impl Witness {
    /// Starts a witness in this process's group; it is a child of this process, and reaped with the others.
    pub(super) fn start() -> Option<Self> {
        Self::spawn()
            .inspect_err(|error| tracing::debug!(%error, "signals to the group are passed on as well"))
            .ok()
    }

    fn spawn() -> Result<Self, Errno> {
        let broken = |error: rustix::io::Errno| Errno::from_raw(error.raw_os_error());
        let (wait, alive) = pipe_with(PipeFlags::CLOEXEC).map_err(broken)?;
        let mut files = PosixSpawnFileActions::init()?;
        files.add_dup2(wait.as_raw_fd(), 0)?;
        // it must not keep the job's log open
        files.add_open(1, c"/dev/null", OFlag::O_WRONLY, Mode::empty())?;
        files.add_dup2(1, 2)?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
        attributes.set_sigmask(&SigSet::all())?;
        let words = [c"/bin/sh", c"-c", c"read _ # plimsoll: waits for the end of the build"];
        let environment: [&std::ffi::CStr; 0] = [];
        let pid = posix_spawn(c"/bin/sh", &files, &attributes, &words, &environment)?;
        Ok(Self { pid, _alive: alive })
    }

    /// Whether the group got this signal. If so, another witness takes over, because this one shows it from now on.
    pub(super) fn got(&mut self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let got = is_pending(&status, signal);
        if got && let Some(next) = Self::start() {
            *self = next;
        }
        got
    }
}

/// Whether a signal is pending for the process whose `/proc/PID/status` this is.
fn is_pending(status: &str, signal: Signal) -> bool {
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal as i32).ok().and_then(|number| number.checked_sub(1));
    bit.is_some_and(|bit| pending >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_are_read_from_the_kernels_mask() {
        let status = "Name:\tsh\nSigPnd:\t0000000000004000\nShdPnd:\t0000000000000002\n";
        assert!(is_pending(status, Signal::SIGINT));
        assert!(!is_pending(status, Signal::SIGTERM), "that one is the thread's own");
        assert!(!is_pending("", Signal::SIGINT));
    }
}
