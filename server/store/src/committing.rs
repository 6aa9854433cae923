//! A commit that the store has accepted and not yet answered.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    errors::CommitError,
    kv::{Batch, CommitReceipt},
};

/// Limit of an engine's commit queue, in shares of [`SHARE_BYTES`]. Each commit takes at least one share, so the limit
/// bounds the number of commits and their bytes.
pub(crate) const QUEUE_SHARES: usize = 1024;
/// Bytes of one share. With [`QUEUE_SHARES`], up to 16 MiB of commits can wait.
const SHARE_BYTES: usize = 16 * 1024;
/// Slots of the queue for messages that are not commits and take no share.
pub(crate) const QUEUE_SPARE: usize = 16;
/// Most commits in one sync. Larger groups do not save disk time, and readers wait longer for the engine's
/// lock.
pub(crate) const GROUP_COMMITS: usize = 256;

/// A commit in the queue, with the channel for its result.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Result<CommitReceipt, CommitError>>,
    /// The commit's share of the queue's limit; released when the commit is answered.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl CommitJob {
    /// Sends the outcome to the caller; it is dropped if the caller does not wait any more.
    pub(crate) fn answer(self, outcome: Result<CommitReceipt, CommitError>) {
        self.answer
            .send(outcome)
            .unwrap_or_else(|_unheard| tracing::debug!("a caller did not wait for its commit"));
    }
}

/// How many shares of the queue a batch takes.
pub(crate) fn queue_shares(batch: &Batch) -> u32 {
    u32::try_from(batch.bytes().div_ceil(SHARE_BYTES).max(1)).unwrap_or(u32::MAX)
}

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
    /// Errors: A check failed, or the store accepts no commits. It may be written all the same: repeat it.
    pub async fn done(&mut self) -> Result<CommitReceipt, CommitError> {
        let closed = |_unanswered| CommitError::Unavailable("the store is closed".to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
