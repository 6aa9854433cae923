//! Forwards signals, so that the build gets them as without the agent.
//!
//! A signal that a process sends to the agent is forwarded, because it is meant for the build. One from the terminal reaches the build
//! directly, as a member of the same foreground group, and must not arrive twice. The kernel reports the source through a signalfd; so the
//! signals are blocked, and the build gets the agent's original mask. The kernel does not report whether a signal was sent to the agent or
//! to its whole group: a signal to the group reaches the build twice, which is less harmful than losing one. For the same reason a hangup
//! is always forwarded: the kernel sends it to the session leader, which may be the agent alone.
//!
//! SIGXFSZ is blocked and ignored: a file of the agent that grows too long fails only that write.

use std::io;

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// Signals that people and machines send to a job, and that would end the agent before the build by default.
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
    /// Whether a process sent it; otherwise the kernel did, for example for a key on the terminal.
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
    /// Blocks the signals in this thread and in threads started later; there must be no others yet. If that fails, signals have their
    /// default effect on the agent.
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

    /// Like [`Self::next`], without changes of the terminal's size.
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

    /// Discards the signals received so far. Returns whether one of them asked the job to end.
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
