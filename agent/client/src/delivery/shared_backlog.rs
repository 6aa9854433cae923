//! The state of one attempt that the build's side and the sending side share.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{backlog::Backlog, route::ServerRoute};

/// One attempt, filled by the build's side and emptied by the sending side. The lock is held for one step in memory or in a file, never
/// across an await.
#[derive(Debug)]
pub(super) struct SharedBacklog {
    backlog: Mutex<Backlog>,
    problem: Mutex<Option<String>>,
    /// Notified when there is something new to send.
    pub(super) wake: Notify,
    /// Cancelled when the build has ended: from then on, waits are short.
    pub(super) ended: CancellationToken,
    /// The route on which the server has welcomed the attempt; `None` before that.
    pub(super) welcomed: watch::Sender<Option<ServerRoute>>,
}

impl SharedBacklog {
    /// Shares a backlog.
    pub(super) fn new(backlog: Backlog) -> Self {
        Self {
            backlog: Mutex::new(backlog),
            problem: Mutex::new(None),
            wake: Notify::new(),
            ended: CancellationToken::new(),
            welcomed: watch::Sender::new(None),
        }
    }

    /// Calls `step` with the locked backlog.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Backlog) -> R) -> R {
        // a panic in another holder of the lock must not end the measuring: the backlog is consistent after each statement
        step(&mut self.backlog.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records why delivery fails now; `None` if it does not.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// The last recorded reason why delivery failed.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
