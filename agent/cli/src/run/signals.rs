//! Passes signals on to the build, so that the build gets each one once, as it would without the agent.
//!
//! The agent blocks every signal that can be caught, reads them from a signalfd, and starts the build with the
//! original signal mask. So no signal ends the agent before the build, also not as process 1 of a container. Two
//! cases are left out: SIGCHLD, and a signal that the agent causes itself (SIGPIPE, SIGXFSZ: only the write
//! fails). A fault of the agent's own code ends it, although blocked.
//!
//! The build stays in the agent's process group. So it gets what is sent to the group (a key on the terminal, the
//! cancel of a runner, SIGKILL) directly, together with its children, and job control is as in a shell. What is
//! sent to the agent alone is passed on to the build's main process. The kernel does not show which of the two a
//! signal was, but the [`Witness`] does: a second member of the group, which gets only what is sent to the group.
//! A group of its own for the build would need no witness, but SIGKILL for the agent's group would not end the
//! build, and a passed-on signal would reach too few or too many of its processes. Without a witness, the sender
//! decides: what a process sent is passed on, and of the kernel's signals only SIGHUP, which the leader of a
//! session gets alone.

use std::{cell::RefCell, fmt, fs, io};

use nix::{
    sys::{
        signal::{SigSet, SigmaskHow, Signal, raise},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use rustix::process::Signal as AnySignal;
use rustix_libc_wrappers::process::SignalExt as _;
use tokio::io::unix::AsyncFd;

use super::{end_requests::STOPPING, witness::Witness};
use crate::wake_timer::watch;

/// Signals that do nothing by default (signal(7)), or continue a process.
pub(super) const WITHOUT_EFFECT: [AnySignal; 3] = [AnySignal::WINCH, AnySignal::URG, AnySignal::CONT];

/// Receives the signals that arrive at the agent.
#[derive(Debug)]
pub(super) struct Signals {
    fd: AsyncFd<SignalFd>,
    original_mask: SigSet,
    /// The signals that were ignored when the agent was started, as under `nohup`; bit n - 1 is signal n.
    ignored: u64,
    witness: RefCell<Option<Witness>>,
}

/// A signal that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceivedSignal {
    pub(super) signal: AnySignal,
    pub(super) reach: SignalReach,
}

/// Which processes have got a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalReach {
    /// The agent alone. It is meant for the build.
    Agent,
    /// The agent's process group.
    Group,
    /// The agent alone, from the kernel, about the agent itself.
    Own,
}

impl ReceivedSignal {
    /// Whether the signal stops a process by default, as Ctrl-Z does.
    pub(super) fn stops(self) -> bool {
        STOPPING.contains(&self.signal)
    }
}

impl fmt::Display for ReceivedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.signal.as_raw();
        match Signal::try_from(number) {
            Ok(signal) => f.write_str(signal.as_str()),
            Err(_realtime) => write!(f, "signal {number}"),
        }
    }
}

impl Signals {
    /// Blocks the signals in this thread and in threads that it starts later; the process must not have other
    /// threads yet.
    /// Errors: the signals cannot be read. They are not blocked then.
    pub(super) fn block() -> io::Result<Self> {
        let mut mask = SigSet::all();
        // set and not added: if SIGCHLD stayed blocked, as some supervisors start their jobs, the end of the build would not be seen
        mask.remove(Signal::SIGCHLD);
        let original_mask = mask.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(io::Error::from)
            .and_then(watch);
        if fd.is_err() {
            original_mask.thread_set_mask()?;
        }
        let ignored = ignored_by("self").unwrap_or(0);
        Ok(Self { fd: fd?, original_mask, ignored, witness: RefCell::new(None) })
    }

    /// Ends the witness: while the agent makes a cgroup, a second process of it in its own one would be in the way.
    pub(super) fn end_witness(&self) {
        *self.witness.borrow_mut() = None;
    }

    /// Starts a witness, in the cgroup in which the agent is by now.
    pub(super) fn start_witness(&self) {
        *self.witness.borrow_mut() = Witness::start();
    }

    /// The signal mask that the agent was started with.
    pub(super) fn original_mask(&self) -> &SigSet {
        &self.original_mask
    }

    /// Restores the original signal mask, before the build takes the place of this process.
    pub(super) fn unblock(&self) -> nix::Result<()> {
        // it would be a child of the build, and take its place in a limit of processes
        self.end_witness();
        self.original_mask.thread_set_mask()
    }

    /// Waits for the next signal.
    pub(super) async fn next(&self) -> ReceivedSignal {
        loop {
            let Ok(mut ready) = self.fd.readable().await else { return std::future::pending().await };
            match self.take() {
                Some(arrived) => return arrived,
                None => ready.clear_ready(),
            }
        }
    }

    /// Returns a signal that has already arrived.
    pub(super) fn take(&self) -> Option<ReceivedSignal> {
        loop {
            let found = self.fd.get_ref().read_signal().ok().flatten()?;
            // the kernel's own signals have codes above 0 (SI_KERNEL); those from kill, sigqueue and tgkill have 0
            // or less, see sigaction(2). What a write of the agent causes comes as from the agent itself
            let by_process = found.ssi_code <= 0;
            let caused_here = by_process && found.ssi_pid == std::process::id();
            let signal = AnySignal::from_raw(found.ssi_signo.cast_signed());
            if let Some(signal) = signal.filter(|_| !caused_here) {
                return Some(ReceivedSignal { signal, reach: self.reach(signal, by_process) });
            }
        }
    }

    fn reach(&self, signal: AnySignal, by_process: bool) -> SignalReach {
        let mut witness = self.witness.borrow_mut();
        let witnessed = witness.as_mut().map(|witness| witness.has_got(signal)).transpose();
        if witnessed.is_err() {
            *witness = None;
        }
        reach(witnessed.ok().flatten().flatten(), by_process, signal)
    }

    /// Waits for the next signal that ends a process by default, while no build runs.
    pub(super) async fn next_interrupt(&self) -> ReceivedSignal {
        loop {
            let arrived = self.next().await;
            if self.interrupts(arrived) {
                return arrived;
            }
        }
    }

    /// Returns such a signal that has already arrived.
    pub(super) fn take_interrupt(&self) -> Option<ReceivedSignal> {
        std::iter::from_fn(|| self.take()).find(|arrived| self.interrupts(*arrived))
    }

    fn interrupts(&self, arrived: ReceivedSignal) -> bool {
        if arrived.stops() {
            stop_this_process(arrived.signal);
        }
        let ends = !arrived.stops() && !WITHOUT_EFFECT.contains(&arrived.signal);
        ends && arrived.reach != SignalReach::Own && !contains(self.ignored, arrived.signal)
    }

    /// Whether a process ignores a signal. If that cannot be read: whether the agent ignored it when it was started,
    /// as under `nohup`, because its children inherit that.
    pub(super) fn is_ignored_by(&self, pid: Pid, signal: AnySignal) -> bool {
        contains(ignored_by(&pid.to_string()).unwrap_or(self.ignored), signal)
    }
}

/// Which processes have got a signal, by the witness, or else by its sender.
fn reach(witnessed: Option<bool>, by_process: bool, signal: AnySignal) -> SignalReach {
    // the leader of a session gets a hangup alone, and it is meant for the build; so is an alarm, which was set before this program began
    let for_build = by_process || [AnySignal::HUP, AnySignal::ALARM].contains(&signal);
    match witnessed {
        Some(false) | None if for_build => SignalReach::Agent,
        Some(false) => SignalReach::Own,
        Some(true) | None => SignalReach::Group,
    }
}

/// Stops this process by the default action of a signal, which the kernel leaves out where no shell could continue
/// it. Returns when it is continued.
pub(super) fn stop_this_process(signal: AnySignal) {
    let stopped = Signal::try_from(signal.as_raw()).and_then(|signal| {
        raise(signal)?;
        let signal = SigSet::from(signal);
        signal.thread_unblock()?;
        signal.thread_block()
    });
    if let Err(error) = stopped {
        tracing::debug!(%error, "the agent does not stop with the build");
    }
}

/// The signals that a process ignores; bit n - 1 is signal n. `None` if this cannot be read.
fn ignored_by(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether a set of signals has this one; bit n - 1 is signal n.
fn contains(set: u64, signal: AnySignal) -> bool {
    set >> signal.as_raw().saturating_sub(1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_of_the_kernel_is_passed_on() {
        for (witnessed, by_process, signal, expected) in [
            (Some(true), true, AnySignal::TERM, SignalReach::Group),
            (Some(false), true, AnySignal::TERM, SignalReach::Agent),
            (Some(false), false, AnySignal::HUP, SignalReach::Agent),
            (Some(false), false, AnySignal::ALARM, SignalReach::Agent),
            (Some(false), false, AnySignal::XCPU, SignalReach::Own),
            (None, true, AnySignal::INT, SignalReach::Agent),
            (None, false, AnySignal::INT, SignalReach::Group),
            (None, false, AnySignal::HUP, SignalReach::Agent),
        ] {
            let reached = reach(witnessed, by_process, signal);
            assert_eq!(reached, expected, "{witnessed:?} {by_process} {signal:?}");
        }
    }
}
