//! The state of one attempt that two sides share: the build's side adds samples, the sending side removes them.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{backlog::Backlog, route::ServerRoute};

/// The backlog of one attempt behind a lock. The lock is held for one step in memory or in a file, and never across an await.
#[derive(Debug)]
pub(super) struct SharedBacklog {
    backlog: Mutex<Backlog>,
    problem: Mutex<Option<String>>,
    /// Notified when there is something new to send.
    pub(super) wake: Notify,
    /// Cancelled when the build has ended; from then on, waits are short.
    pub(super) ended: CancellationToken,
    /// The route on which the server has welcomed the attempt; `None` before that.
    pub(super) welcomed: watch::Sender<Option<ServerRoute>>,
}

impl SharedBacklog {
    /// Creates the shared state for a backlog.
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
        // after a panic of another holder of the lock, measuring must go on: the backlog is consistent after each statement
        step(&mut self.backlog.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records why delivery fails at present; `None` if it does not.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// The reason why delivery fails, as it was last recorded.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
