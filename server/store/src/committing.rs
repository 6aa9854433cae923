//! A commit that the store has accepted and not yet answered.

use tokio::sync::oneshot;

use super::{errors::CommitError, kv::CommitReceipt};

/// A commit in the store's queue. The store completes it even if this value is dropped.
#[derive(Debug)]
pub struct PendingCommit(pub(super) oneshot::Receiver<Result<CommitReceipt, CommitError>>);

impl PendingCommit {
    /// A commit with a known result, for a store that answers at once.
    pub(super) fn already_ended(outcome: Result<CommitReceipt, CommitError>) -> Self {
        let (answer, answered) = oneshot::channel();
        // cannot fail: `answered`, the receiver, still exists
        let _taken = answer.send(outcome);
        Self(answered)
    }

    /// Waits for the result; after success the commit is on disk. The returned future may be dropped and the method called again, until it
    /// has answered.
    /// Errors: A check failed, or the store accepts no commits. Nothing was written then.
    pub async fn done(&mut self) -> Result<CommitReceipt, CommitError> {
        let closed = |_unanswered| CommitError::Unavailable("the store is closed".to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
