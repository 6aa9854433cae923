//! A commit that the store has accepted and not yet answered.

use tokio::sync::oneshot;

use super::{errors::CommitError, kv::CommitReceipt};

/// Continues even if no caller waits for it.
#[derive(Debug)]
pub struct PendingCommit(pub(super) oneshot::Receiver<Result<CommitReceipt, CommitError>>);

impl PendingCommit {
    /// A commit that ended immediately.
    pub(super) fn ended(outcome: Result<CommitReceipt, CommitError>) -> Self {
        let (answer, answered) = oneshot::channel();
        // the other half of the channel is still in scope
        let _taken = answer.send(outcome);
        Self(answered)
    }

    /// Waits for the result; after success the commit is on disk. The returned future may be dropped and the method called again, until it
    /// has answered.
    ///
    /// # Errors
    /// A check failed, or the store accepts no commits. Nothing was written then.
    pub async fn done(&mut self) -> Result<CommitReceipt, CommitError> {
        let closed = |_unanswered| CommitError::Unavailable("the store is closed".to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
