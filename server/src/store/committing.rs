//! A commit that the store has taken and not yet answered.

use tokio::sync::oneshot;

use super::{errors::CommitError, kv::Committed};

/// Goes on, whether somebody waits for it or not.
#[derive(Debug)]
pub struct Committing(pub(super) oneshot::Receiver<Result<Committed, CommitError>>);

impl Committing {
    /// One that ended as soon as it began.
    pub(super) fn ended(outcome: Result<Committed, CommitError>) -> Self {
        let (answer, answered) = oneshot::channel();
        // the other half is right here
        let _taken = answer.send(outcome);
        Self(answered)
    }

    /// How it ended; on the disk if it did well. To be called until it has answered; the call may be dropped and made again.
    ///
    /// # Errors
    /// A check did not hold, or the store takes nothing. Nothing was written then.
    pub async fn done(&mut self) -> Result<Committed, CommitError> {
        let closed = |_unanswered| CommitError::Unavailable("the store is closed".to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
