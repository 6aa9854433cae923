//! Forwards signals to the build, so that the build gets them as it would without the agent.
//!
//! A signal that a process sends to the agent is forwarded, because it is meant for the build. A signal from
//! the terminal reaches the build directly, because both are in the foreground process group; it must not
//! arrive twice. A signalfd shows where a signal came from. So the agent blocks the signals, and starts the
//! build with its own original signal mask. The kernel does not show whether a signal was sent only to the
//! agent or to its whole process group. In the second case the build gets it twice, which does less harm than
//! losing a signal. For the same reason a hangup is always forwarded: the kernel sends it to the leader of the
//! session, which may be the agent alone.
//!
//! SIGXFSZ is blocked and ignored: if a file of the agent grows beyond the limit, only that write fails.

use std::io;

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// Signals that are forwarded: people and programs send them to end a job or to inform it, and by default they
/// would end the agent before the build.
const FORWARDED_SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Receives the signals that arrive at the agent.
#[derive(Debug)]
pub(super) struct Signals {
    fd: Option<AsyncFd<SignalFd>>,
    original_mask: SigSet,
}

/// A signal that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceivedSignal {
    pub(super) signal: Signal,
    /// Whether a process sent the signal. Otherwise the kernel did, for example after a key on the terminal.
    pub(super) by_process: bool,
}

impl ReceivedSignal {
    /// Whether only the agent has got the signal, so that it must be forwarded to the build.
    pub(super) fn reaches_only_the_agent(self) -> bool {
        self.signal != Signal::SIGWINCH && (self.by_process || self.signal == Signal::SIGHUP)
    }

    /// Whether the signal asks the job to end.
    pub(super) fn asks_to_end(self) -> bool {
        matches!(self.signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
    }
}

impl Signals {
    /// Blocks the signals in this thread and in threads that it starts later; the process must not have other
    /// threads yet. If this fails, signals have their default effect on the agent.
    pub(super) fn block() -> Self {
        let mask: SigSet = FORWARDED_SIGNALS.into_iter().chain([Signal::SIGWINCH]).collect();
        let blocked: SigSet = mask.iter().chain([Signal::SIGXFSZ]).collect();
        let before = match blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            Ok(before) => before,
            Err(error) => {
                tracing::warn!(%error, "signals are not passed on to the build");
                return Self { fd: None, original_mask: SigSet::empty() };
            }
        };
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(io::Error::from)
            .and_then(watch_signals);
        if let Err(error) = &fd {
            tracing::warn!(%error, "signals are not passed on to the build");
            if let Err(error) = before.thread_set_mask() {
                tracing::warn!(%error, "signals stay blocked");
            }
        }
        Self { fd: fd.ok(), original_mask: before }
    }

    /// The signal mask that the agent was started with.
    pub(super) fn original_mask(&self) -> &SigSet {
        &self.original_mask
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

    /// Waits for the next signal, and ignores changes of the terminal's size.
    pub(super) async fn next_but_size(&self) -> ReceivedSignal {
        loop {
            let arrived = self.next().await;
            if arrived.signal != Signal::SIGWINCH {
                return arrived;
            }
        }
    }

    /// Returns a signal that has already arrived, and ignores changes of the terminal's size.
    pub(super) fn take_but_size(&self) -> Option<ReceivedSignal> {
        let fd = self.fd.as_ref()?;
        std::iter::from_fn(|| read(fd.get_ref()).ok()).find(|arrived| arrived.signal != Signal::SIGWINCH)
    }

    /// Discards the signals that have arrived. Returns whether one of them asked the job to end.
    pub(super) fn discard_received(&self) -> bool {
        let Some(fd) = &self.fd else { return false };
        std::iter::from_fn(|| read(fd.get_ref()).ok())
            .fold(false, |ends, arrived| ends | arrived.asks_to_end())
    }
}

#[expect(
    deprecated,
    reason = "the replacement is unsafe; a SignalFd owns its descriptor and never changes it, as that asks"
)]
fn watch_signals(fd: SignalFd) -> io::Result<AsyncFd<SignalFd>> {
    AsyncFd::new(fd)
}

fn read(fd: &SignalFd) -> io::Result<ReceivedSignal> {
    let Some(found) = fd.read_signal()? else { return Err(io::ErrorKind::WouldBlock.into()) };
    let number = i32::try_from(found.ssi_signo).unwrap_or(0);
    // the kernel's own signals have codes above 0 (SI_KERNEL); those from kill, sigqueue and tgkill have 0 or
    // less, see sigaction(2)
    Ok(ReceivedSignal { signal: Signal::try_from(number)?, by_process: found.ssi_code <= 0 })
}
