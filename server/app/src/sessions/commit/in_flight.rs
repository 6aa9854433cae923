//! The commit that the store is writing, if any.

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{CommitError, PendingCommit};
use tokio::time::Instant;

use super::staged::{StagedCommit, StagedSession};

/// The commit that the store is writing, if any.
#[derive(Debug, Default)]
pub(super) struct CommitInFlight(Option<SentCommit>);

/// A commit that the store has.
#[derive(Debug)]
pub(super) struct SentCommit {
    /// Changes of the commit, without the batch.
    pub(super) staged: StagedCommit,
    pub(super) began: Instant,
    /// `None` if there was nothing to write.
    pub(super) committing: Option<PendingCommit>,
}

/// How a commit ended.
pub(crate) type CommitOutcome = Result<(), CommitError>;

impl CommitInFlight {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The store has this one.
    pub(super) fn put(&mut self, sent: SentCommit) {
        self.0 = Some(sent);
    }

    /// Removes it after its end.
    pub(super) fn take(&mut self) -> Option<SentCommit> {
        self.0.take()
    }

    /// Waits for its result; forever if there is none. The future may be dropped and the method called again, until it has returned.
    pub(super) async fn outcome(&mut self) -> CommitOutcome {
        match &mut self.0 {
            Some(SentCommit { committing: Some(committing), .. }) => committing.done().await.map(drop),
            Some(_) => Ok(()),
            None => std::future::pending().await,
        }
    }

    /// An attempt of the commit.
    pub(super) fn staged_session(&self, id: &AttemptId) -> Option<&StagedSession> {
        self.0.as_ref()?.staged.staged.get(id)
    }

    /// An attempt of the commit, mutable.
    pub(super) fn staged_session_mut(&mut self, id: &AttemptId) -> Option<&mut StagedSession> {
        self.0.as_mut()?.staged.staged.get_mut(id)
    }

    /// How many attempts of the commit are new.
    pub(super) fn begun(&self) -> usize {
        self.0.as_ref().map_or(0, |sent| sent.staged.begun.len())
    }

    /// A verdict on this attempt waits to be on disk.
    pub(super) fn holds_verdict_on(&self, id: &AttemptId) -> bool {
        self.0.as_ref().is_some_and(|sent| sent.staged.judged.contains(id))
    }
}
