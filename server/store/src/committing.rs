//! A commit that the store has taken and not yet answered.

use tokio::sync::oneshot;

use super::{errors::CommitError, kv::CommitReceipt};

/// Goes on, whether or not a caller waits for it.
#[derive(Debug)]
pub struct PendingCommit(pub(super) oneshot::Receiver<Result<CommitReceipt, CommitError>>);

impl PendingCommit {
    /// One that ended as soon as it began.
    pub(super) fn ended(outcome: Result<CommitReceipt, CommitError>) -> Self {
        let (answer, answered) = oneshot::channel();
        // the other half is right here
        let _taken = answer.send(outcome);
        Self(answered)
    }

    /// How it ended; on the disk if it did well. To be called until it has answered; the call may be dropped and made again.
    ///
    /// # Errors
    /// A check did not hold, or the store takes nothing. Nothing was written then.
    pub async fn done(&mut self) -> Result<CommitReceipt, CommitError> {
        let closed = |_unanswered| CommitError::Unavailable("the store is closed".to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
