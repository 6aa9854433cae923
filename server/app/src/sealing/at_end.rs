//! Seals ended attempts: compacts each one's fragments into sealed blocks, and replaces the open record by the summary, in one commit.

use std::sync::Arc;

use plimsoll_core::domain::{Attempt, Summary};
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::JoinSet;

use crate::{state::verdict_engine::VerdictEngine, verdict_records::causes::judged_early};

/// Attempts packed at once: while one reads and packs, others wait for the disk, and their commits share a sync.
const AT_ONCE: usize = 16;

/// An ended attempt, with its owner's state.
#[derive(Debug)]
pub(crate) struct AttemptToSeal<T> {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) summary: Summary,
    pub(crate) owned: T,
}

/// An attempt whose end is on disk, or could not be written.
#[derive(Debug)]
pub(crate) struct SealedAttempt<T> {
    /// Its summary, with the cause from all evidence of its verdicts.
    pub(crate) summary: Summary,
    /// There was a verdict on it before its end.
    pub(crate) was_judged: bool,
    pub(crate) result: Result<(), SealError>,
    pub(crate) owned: T,
}

/// Seals attempts, a few at once.
#[derive(Debug)]
pub(crate) struct SealQueue<T> {
    store: Store,
    verdict_engine: VerdictEngine,
    waiting: std::vec::IntoIter<AttemptToSeal<T>>,
    sealing: JoinSet<SealedAttempt<T>>,
}

impl<T: Send + 'static> SealQueue<T> {
    /// Seals all of these.
    pub(crate) fn new(store: Store, verdict_engine: VerdictEngine, attempts: Vec<AttemptToSeal<T>>) -> Self {
        Self { store, verdict_engine, waiting: attempts.into_iter(), sealing: JoinSet::new() }
    }

    /// The next sealed attempt; `None` if none is being sealed.
    pub(crate) async fn next(&mut self) -> Option<SealedAttempt<T>> {
        loop {
            for attempt in self.waiting.by_ref().take(AT_ONCE - self.sealing.len()) {
                self.sealing.spawn(seal(self.store.clone(), self.verdict_engine.clone(), attempt));
            }
            match self.sealing.join_next().await? {
                Ok(sealed) => return Some(sealed),
                // the attempt stays open, and its agent tries again later
                Err(error) => tracing::error!(%error, "sealing an attempt failed unexpectedly"),
            }
        }
    }
}

/// Seals one attempt.
async fn seal<T>(store: Store, verdict_engine: VerdictEngine, attempt: AttemptToSeal<T>) -> SealedAttempt<T> {
    let AttemptToSeal { attempt, mut summary, owned } = attempt;
    let was_judged = judged_early(&store, &verdict_engine, &mut summary).await;
    let sealed = store::seal(&store, &attempt, &summary).await;
    SealedAttempt { summary, was_judged, result: sealed.map(drop), owned }
}
