//! Signals: the agent stands in front of the build and must not be felt.
//!
//! A signal that a process sends to the agent is passed on, because its sender means the build. One from the terminal
//! reaches the build by itself, as a member of the same foreground group, and would arrive twice. The kernel says which is which,
//! through a signalfd; so the signals are blocked, and the build gets the mask that the agent was started with. What it does not
//! say is whether a process sent a signal to the agent or to its whole group: a signal to the group reaches the build twice, because
//! one too many does less harm than one that is lost. For the same reason a hangup is always passed on: the kernel sends it to the
//! leader of the session, which may be the agent alone.
//!
//! SIGXFSZ is blocked without being read: a file of the agent's that grows too long is an error of that write, and the agent goes on.

use std::io;

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// Those that people and machines send to a job, and whose default would end the agent before the build.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// The signals that were sent to the agent.
#[derive(Debug)]
pub(super) struct Signals {
    fd: Option<AsyncFd<SignalFd>>,
    before: SigSet,
}

/// One signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceivedSignal {
    pub(super) signal: Signal,
    /// Sent by a process; otherwise by the kernel, for example for a key on the terminal.
    pub(super) sent: bool,
}

impl ReceivedSignal {
    /// Whether the build has not got it by itself.
    pub(super) fn reaches_only_the_agent(self) -> bool {
        self.signal != Signal::SIGWINCH && (self.sent || self.signal == Signal::SIGHUP)
    }

    /// Whether its sender wants the job to end.
    pub(super) fn asks_to_end(self) -> bool {
        matches!(self.signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
    }
}

impl Signals {
    /// Blocks the signals in this thread, and in those that it starts from now on; others of this process must not exist yet.
    /// If that fails, signals do to the agent what they always do.
    pub(super) fn block() -> Self {
        let mask: SigSet = PASSED_ON.into_iter().chain([Signal::SIGWINCH]).collect();
        let blocked: SigSet = mask.iter().chain([Signal::SIGXFSZ]).collect();
        let before = match blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            Ok(before) => before,
            Err(error) => {
                tracing::warn!(%error, "signals are not passed on to the build");
                return Self { fd: None, before: SigSet::empty() };
            }
        };
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(io::Error::from)
            .and_then(watch);
        if let Err(error) = &fd {
            tracing::warn!(%error, "signals are not passed on to the build");
            if let Err(error) = before.thread_set_mask() {
                tracing::warn!(%error, "signals stay blocked");
            }
        }
        Self { fd: fd.ok(), before }
    }

    /// The mask that the agent was started with.
    pub(super) fn before(&self) -> &SigSet {
        &self.before
    }

    /// Waits for the next signal.
    pub(super) async fn next(&self) -> ReceivedSignal {
        let Some(fd) = &self.fd else { return std::future::pending().await };
        loop {
            let Ok(mut ready) = fd.readable().await else { return std::future::pending().await };
            if let Ok(Ok(arrived)) = ready.try_io(|fd| read(fd.get_ref())) {
                return arrived;
            }
        }
    }

    /// As [`Self::next`], for those who do not care for the size of the terminal.
    pub(super) async fn next_but_size(&self) -> ReceivedSignal {
        loop {
            let arrived = self.next().await;
            if arrived.signal != Signal::SIGWINCH {
                return arrived;
            }
        }
    }

    /// A signal that has arrived already, as [`Self::next_but_size`].
    pub(super) fn take_but_size(&self) -> Option<ReceivedSignal> {
        let fd = self.fd.as_ref()?;
        std::iter::from_fn(|| read(fd.get_ref()).ok()).find(|arrived| arrived.signal != Signal::SIGWINCH)
    }

    /// Forgets the signals that arrived so far. Returns whether one of them asked the job to end.
    pub(super) fn forget(&self) -> bool {
        let Some(fd) = &self.fd else { return false };
        std::iter::from_fn(|| read(fd.get_ref()).ok())
            .fold(false, |ends, arrived| ends | arrived.asks_to_end())
    }
}

#[expect(
    deprecated,
    reason = "the replacement is unsafe; a SignalFd owns its descriptor and never changes it, as that asks"
)]
fn watch(fd: SignalFd) -> io::Result<AsyncFd<SignalFd>> {
    AsyncFd::new(fd)
}

fn read(fd: &SignalFd) -> io::Result<ReceivedSignal> {
    let Some(found) = fd.read_signal()? else { return Err(io::ErrorKind::WouldBlock.into()) };
    let number = i32::try_from(found.ssi_signo).unwrap_or(0);
    // codes above 0 are the kernel's (SI_KERNEL); kill, sigqueue and tgkill have 0 and below. See sigaction(2)
    Ok(ReceivedSignal { signal: Signal::try_from(number)?, sent: found.ssi_code <= 0 })
}
