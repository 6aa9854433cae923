//! What the build's side and the sending side of one attempt share.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{backlog::Backlog, route::ServerRoute};

/// One attempt, pushed to from one side and emptied from the other. The lock is held for one step of memory or file, never
/// over an await.
#[derive(Debug)]
pub(super) struct SharedBacklog {
    backlog: Mutex<Backlog>,
    problem: Mutex<Option<String>>,
    /// There is something new to send.
    pub(super) wake: Notify,
    /// The build has ended: do not wait long for anything.
    pub(super) ended: CancellationToken,
    /// The way on which the server has welcomed the attempt, once it has.
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

    /// Does one step with the backlog.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Backlog) -> R) -> R {
        // a panic elsewhere must not end the measuring: the backlog is consistent after each statement
        step(&mut self.backlog.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers what stands in the way now; `None` if nothing does.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// What stood in the way last.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
