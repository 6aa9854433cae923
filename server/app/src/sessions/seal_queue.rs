//! Seals ended attempts: compacts each one's fragments into sealed blocks, and replaces the open record by the summary, in one commit.

use plimsoll_core::domain::Summary;
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::JoinSet;

use super::{request::Answer, session::Session};
use crate::{state::verdict_engine::VerdictEngine, verdict_records::causes::judged_early};

/// Attempts packed at once: while one reads and packs, others wait for the disk, and their commits share a sync.
const SEALS_AT_ONCE: usize = 16;

/// An ended attempt, as it will be when it is sealed.
#[derive(Debug)]
pub(super) struct ClosedAttempt {
    pub(super) session: Session,
    /// Once it is sealed, with the cause from all evidence of its verdicts.
    pub(super) summary: Summary,
    /// Whether the start time is the agent's, not an estimate.
    pub(super) believed: bool,
    pub(super) keeps_ticket: bool,
    pub(super) answer: Option<Answer<u64>>,
}

/// An attempt whose end is on disk, or could not be written.
#[derive(Debug)]
pub(super) struct SealedAttempt {
    pub(super) closed: ClosedAttempt,
    /// Whether there was a verdict on it before its end.
    pub(super) was_judged: bool,
    pub(super) result: Result<(), SealError>,
}

/// Seals attempts, a few at once.
#[derive(Debug)]
pub(super) struct SealQueue {
    store: Store,
    verdict_engine: VerdictEngine,
    waiting: std::vec::IntoIter<ClosedAttempt>,
    sealing: JoinSet<SealedAttempt>,
}

impl SealQueue {
    /// Seals all of these.
    pub(super) fn new(store: Store, verdict_engine: VerdictEngine, attempts: Vec<ClosedAttempt>) -> Self {
        Self { store, verdict_engine, waiting: attempts.into_iter(), sealing: JoinSet::new() }
    }

    /// The next sealed attempt; `None` if none is being sealed.
    pub(super) async fn next(&mut self) -> Option<SealedAttempt> {
        loop {
            for attempt in self.waiting.by_ref().take(SEALS_AT_ONCE - self.sealing.len()) {
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

async fn seal(store: Store, verdict_engine: VerdictEngine, mut closed: ClosedAttempt) -> SealedAttempt {
    let was_judged = judged_early(&store, &verdict_engine, &mut closed.summary).await;
    let sealed = store::seal(&store, &closed.session.attempt, &closed.summary).await;
    SealedAttempt { closed, was_judged, result: sealed.map(drop) }
}
