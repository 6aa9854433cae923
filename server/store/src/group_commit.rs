//! The one task that writes to a store, whatever its engine.
//!
//! It takes commits from its queue, has the engine write them as one group, and answers all of them once the group is durable. Meanwhile
//! the queue collects the next group. After an error it answers with the error and makes the store read-only: it refuses commits, and about
//! once a second lets the engine try to become writable again.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    runtime::Builder,
    select,
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    bounds::BATCH_BYTES,
    committing::{CLOSED, CommitJob, Message},
    errors::CommitError,
    kv::{CommitReceipt, StoreMode},
    status::SharedStatus,
};

/// Most commits in one group. Larger groups do not save disk time, and readers wait longer for the engine's
/// lock.
const GROUP_COMMITS: usize = 256;
/// Interval between attempts to become writable again.
pub(crate) const RETRY_EVERY: Duration = Duration::from_secs(1);

/// What an engine does for the task that writes.
pub(crate) trait GroupEngine: Sized {
    type Error;
    /// Whether commits wait while the engine tries to become writable again; else they are refused meanwhile.
    const COMMITS_WAIT: bool;
    /// Why no commit succeeds once the task has ended by itself.
    const ENDED: &str;

    /// Writes a group. When this returns, all commits of it that are acknowledged are durable. After an error their fate may be unknown.
    async fn write(&mut self, group: &[CommitJob]) -> Result<WrittenGroup, Self::Error>;
    /// Logs the error, and returns the mode of the store after it.
    fn mode_after(&mut self, error: Self::Error) -> StoreMode;
    /// Whether [`Self::recover`] should be called, if the store is read-only or is not.
    fn needs_recovery(&self, is_read_only: bool) -> bool;
    /// Tries to become writable again. May be cancelled at each await.
    async fn recover(&mut self) -> Result<(), Self::Error>;
    /// Called after each message, and once a second without one.
    async fn maintain(&mut self);
    /// Releases what the engine holds. All commits are answered already.
    async fn end(&mut self);
}

/// What became of a group.
pub(crate) struct WrittenGroup {
    /// Number of the last commit of the store.
    pub(crate) last: u64,
    /// The result of each commit of the group.
    pub(crate) outcomes: Vec<Result<CommitReceipt, CommitError>>,
}

/// State of the task that writes.
pub(crate) struct GroupCommit<E: GroupEngine> {
    engine: E,
    status: Arc<SharedStatus>,
    queue: mpsc::Receiver<Message<E>>,
    /// A message that was taken from the queue and did not fit into the last group.
    carried_over: Option<Message<E>>,
    last_try: Instant,
}

impl<E: GroupEngine> GroupCommit<E> {
    pub(crate) fn new(engine: E, status: Arc<SharedStatus>, queue: mpsc::Receiver<Message<E>>) -> Self {
        Self { engine, status, queue, carried_over: None, last_try: Instant::now() }
    }

    /// Like [`Self::run`], for an engine whose calls block.
    pub(crate) fn run_blocking(self) {
        match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => tracing::error!(%error, "the thread that writes has no timer"),
        }
    }

    /// Handles messages until the queue is closed or its sender is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let message = match self.carried_over.take() {
                Some(message) => Ok(Some(message)),
                None => timeout(RETRY_EVERY, self.queue.recv()).await,
            };
            match message {
                Ok(Some(Message::Commit(first))) => self.write_group(first).await,
                Ok(Some(Message::Call(call))) => call(&mut self.engine),
                Ok(Some(Message::Close) | None) => break,
                Err(_idle) => {}
            }
            self.recover_if_due().await;
            self.engine.maintain().await;
        }
        self.status.set_mode(StoreMode::ReadOnly { reason: CLOSED.to_owned() });
        self.queue.close();
        while let Some(message) = self.queue.recv().await {
            refuse(message, CLOSED);
        }
        self.engine.end().await;
    }

    /// Handles one group of commits: takes it from the queue, has it written, and answers its callers.
    async fn write_group(&mut self, first: CommitJob) {
        let begin = Instant::now();
        let group = self.gather_group(first);
        if E::COMMITS_WAIT {
            self.recover_if_due().await;
        }
        let written = match self.status.refusal() {
            Some(reason) => Err(reason),
            None => self.engine.write(&group).await.map_err(|error| self.go_read_only(error)),
        };
        match written {
            Ok(WrittenGroup { last, outcomes }) => {
                self.status.note_committed(last, begin.elapsed());
                group.into_iter().zip(outcomes).for_each(|(job, outcome)| job.answer(outcome));
            }
            Err(reason) => group.into_iter().for_each(|job| job.refuse(&reason)),
        }
    }

    /// Takes commits from the queue, up to the limits of a group.
    fn gather_group(&mut self, first: CommitJob) -> Vec<CommitJob> {
        let mut bytes = first.batch.bytes();
        let mut group = vec![first];
        while group.len() < GROUP_COMMITS {
            match self.queue.try_recv() {
                Ok(Message::Commit(job)) if bytes + job.batch.bytes() <= BATCH_BYTES => {
                    bytes += job.batch.bytes();
                    group.push(job);
                }
                Ok(message) => {
                    self.carried_over = Some(message);
                    break;
                }
                Err(_empty) => break,
            }
        }
        group
    }

    /// Makes the store read-only; returns the reason.
    fn go_read_only(&mut self, error: E::Error) -> String {
        let mode = self.engine.mode_after(error);
        let reason = mode.refusal().unwrap_or_default().to_owned();
        self.last_try = Instant::now();
        self.status.set_mode(mode);
        reason
    }

    /// Lets the engine try to become writable again, if the last attempt was long enough ago.
    async fn recover_if_due(&mut self) {
        // a message that ends the attempt is carried over itself
        let is_free = E::COMMITS_WAIT || self.carried_over.is_none();
        let is_read_only = self.status.refusal().is_some();
        if !is_free || self.last_try.elapsed() < RETRY_EVERY || !self.engine.needs_recovery(is_read_only) {
            return;
        }
        self.last_try = Instant::now();
        let attempt = self.engine.recover();
        let tried = if E::COMMITS_WAIT {
            Ok(attempt.await)
        } else {
            refuse_meanwhile(attempt, &mut self.queue, &self.status).await
        };
        match tried {
            Ok(Ok(())) => self.status.set_mode(StoreMode::Writable),
            Ok(Err(error)) => {
                self.go_read_only(error);
            }
            Err(message) => self.carried_over = Some(message),
        }
        self.status.update(|status| status.tries += 1);
    }
}

/// Makes the store read-only however the task ends: without it no commit can succeed.
impl<E: GroupEngine> Drop for GroupCommit<E> {
    fn drop(&mut self) {
        if self.status.refusal().is_none() {
            self.status.set_mode(StoreMode::ReadOnly { reason: E::ENDED.to_owned() });
        }
    }
}

/// Waits for a future, and refuses commits meanwhile if the store is read-only.
/// Errors: a message of another kind came, which ends the wait.
async fn refuse_meanwhile<E, T>(
    future: impl Future<Output = T>,
    queue: &mut mpsc::Receiver<Message<E>>,
    status: &SharedStatus,
) -> Result<T, Message<E>> {
    let mut future = pin!(future);
    loop {
        let reason = status.refusal();
        let message = select! {
            outcome = &mut future => return Ok(outcome),
            Some(message) = queue.recv(), if reason.is_some() => message,
        };
        if let Some(other) = refuse(message, &reason.unwrap_or_default()) {
            return Err(other);
        }
    }
}

/// Answers a commit that is not written; returns any other message.
fn refuse<E>(message: Message<E>, reason: &str) -> Option<Message<E>> {
    let Message::Commit(job) = message else { return Some(message) };
    job.refuse(reason);
    None
}
