//! The commit that the store is writing, if any.

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{CommitError, PendingCommit};
use tokio::time::Instant;

use super::staged::{StagedCommit, StagedSession};

/// The commit that the store is writing, if any.
#[derive(Debug, Default)]
pub(super) struct CommitInFlight(Option<SentCommit>);

/// A commit that was sent to the store.
#[derive(Debug)]
pub(super) struct SentCommit {
    /// Changes of the commit. Their batch was taken by the store.
    pub(super) staged: StagedCommit,
    pub(super) began: Instant,
    /// The running write; `None` if there was nothing to write.
    pub(super) committing: Option<PendingCommit>,
}

/// How a commit ended.
pub(crate) type CommitOutcome = Result<(), CommitError>;

impl CommitInFlight {
    /// Whether no commit is being written.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Keeps a commit that was sent to the store, until it has ended.
    pub(super) fn put(&mut self, sent: SentCommit) {
        self.0 = Some(sent);
    }

    /// Removes the commit after its end, and returns it.
    pub(super) fn take(&mut self) -> Option<SentCommit> {
        self.0.take()
    }

    /// Waits for the result of the commit; waits for ever if there is none. The future may be
    /// dropped and the method called again, until it has returned.
    pub(super) async fn outcome(&mut self) -> CommitOutcome {
        match &mut self.0 {
            Some(SentCommit { committing: Some(committing), .. }) => committing.done().await.map(drop),
            Some(_) => Ok(()),
            None => std::future::pending().await,
        }
    }

    /// An attempt as the commit changes it.
    pub(super) fn staged_session(&self, id: &AttemptId) -> Option<&StagedSession> {
        self.0.as_ref()?.staged.staged_sessions.get(id)
    }

    /// An attempt as the commit changes it, mutable.
    pub(super) fn staged_session_mut(&mut self, id: &AttemptId) -> Option<&mut StagedSession> {
        self.0.as_mut()?.staged.staged_sessions.get_mut(id)
    }

    pub(super) fn new_attempts(&self) -> usize {
        self.0.as_ref().map_or(0, |sent| sent.staged.new_attempts.len())
    }

    pub(super) fn holds_verdict_on(&self, id: &AttemptId) -> bool {
        self.0.as_ref().is_some_and(|sent| sent.staged.newly_judged.contains(id))
    }
}
