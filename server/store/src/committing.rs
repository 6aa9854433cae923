//! The queue of commits in front of an engine that keeps what it writes: how it is filled, and how it ends. `group_commit` empties it.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    errors::{CommitError, StoreError, StoreResult},
    kv::{Batch, CommitReceipt},
    threads,
};

/// Limit of an engine's commit queue, in shares of [`SHARE_BYTES`]. Each commit takes at least one share, so the limit
/// bounds the number of commits and their bytes.
const QUEUE_SHARES: usize = 1024;
/// Bytes of one share. With [`QUEUE_SHARES`], up to 16 MiB of commits can wait.
const SHARE_BYTES: usize = 16 * 1024;
/// Slots of the queue for messages that are not commits and take no share.
const QUEUE_SPARE: usize = 16;
/// Why a store that was closed takes no commits.
pub(crate) const CLOSED: &str = "the store is closed";

/// A message from a handle of the store to the task that writes with the engine `E`.
pub(crate) enum Message<E> {
    Commit(CommitJob),
    /// A call of the engine between two groups of commits.
    Call(Box<dyn FnOnce(&mut E) + Send>),
    /// Ends the task, after it has handled earlier messages.
    Close,
}

/// A commit in the queue, with the channel for its result.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) batch: Batch,
    answer: oneshot::Sender<Result<CommitReceipt, CommitError>>,
    /// The commit's share of the queue's limit; released when the commit is answered.
    _room: OwnedSemaphorePermit,
}

impl CommitJob {
    /// Sends the outcome to the caller; it is dropped if the caller does not wait any more.
    pub(crate) fn answer(self, outcome: Result<CommitReceipt, CommitError>) {
        self.answer
            .send(outcome)
            .unwrap_or_else(|_unheard| tracing::debug!("a caller did not wait for its commit"));
    }

    /// Answers a commit that is not acknowledged.
    pub(crate) fn refuse(self, reason: &str) {
        self.answer(Err(CommitError::Unavailable(reason.to_owned())));
    }
}

/// The end of the queue that the store's handles have, and the thread at the other end.
pub(crate) struct CommitQueue<E> {
    messages: mpsc::Sender<Message<E>>,
    shares: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<E> fmt::Debug for CommitQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitQueue").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<E: 'static> CommitQueue<E> {
    /// Starts the thread that writes, on which `run` empties the queue.
    pub(crate) fn start(run: impl FnOnce(mpsc::Receiver<Message<E>>) + Send + 'static) -> io::Result<Self> {
        let (messages, received) = mpsc::channel(QUEUE_SHARES + QUEUE_SPARE);
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            threads::yield_to_others();
            run(received);
        })?;
        let shares = Arc::new(Semaphore::new(QUEUE_SHARES));
        Ok(Self { messages, shares, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn begin(&self, batch: Batch) -> Result<PendingCommit, CommitError> {
        let failed = |reason: &str| CommitError::Unavailable(reason.to_owned());
        batch.check_bounds()?;
        let shares = u32::try_from(batch.bytes().div_ceil(SHARE_BYTES).max(1)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.shares).acquire_many_owned(shares).await;
        let room = room.map_err(|_closed| failed(CLOSED))?;
        let (answer, outcome) = oneshot::channel();
        self.send(Message::Commit(CommitJob { batch, answer, _room: room })).map_err(failed)?;
        Ok(PendingCommit(outcome))
    }

    /// Calls the engine between two groups of commits.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut E) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let failed = |reason: &str| StoreError::Unavailable(reason.to_owned());
        let (answer, outcome) = oneshot::channel();
        // a caller that has gone drops the answer
        let call = Box::new(move |engine: &mut E| drop(answer.send(call(engine))));
        self.send(Message::Call(call)).map_err(failed)?;
        outcome.await.map_err(|_unanswered| failed(CLOSED))
    }

    fn send(&self, message: Message<E>) -> Result<(), &'static str> {
        self.messages.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => "its queue is full",
            TrySendError::Closed(_) => CLOSED,
        })
    }

    /// Waits until the accepted commits are written and the thread has ended; calls `meanwhile` before it waits. Later calls return
    /// success at once.
    pub(crate) async fn close(&self, meanwhile: impl FnOnce()) -> StoreResult<()> {
        let failed = |reason: &str| StoreError::Unavailable(reason.to_owned());
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Close) {
            return Err(failed("its queue is full; try to close it again"));
        }
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        meanwhile();
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(())) => Ok(()),
            _ => Err(failed("the thread that writes did not end as it should")),
        }
    }
}

/// A commit in the store's queue. The store completes it even if this value is dropped.
#[derive(Debug)]
pub struct PendingCommit(oneshot::Receiver<Result<CommitReceipt, CommitError>>);

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
        let closed = |_unanswered| CommitError::Unavailable(CLOSED.to_owned());
        (&mut self.0).await.map_err(closed)?
    }
}
