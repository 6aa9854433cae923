//! Seals ended attempts: compacts the fragments of each into sealed blocks, and replaces the record
//! of the open attempt by the summary, in one commit.

use plimsoll_core::domain::Summary;
use plimsoll_store::{self as store, SealError};
use tokio::task::JoinSet;

use super::{IngestParts, causes::judged_early, request::AnswerSender, session::Session};

/// Attempts sealed at the same time: while one reads and packs, others wait for the disk, and their
/// commits share a sync.
const SEALS_AT_ONCE: usize = 16;

/// An ended attempt that is ready to be sealed.
#[derive(Debug)]
pub(super) struct ClosedAttempt {
    pub(super) session: Session,
    /// The summary. While it is sealed, it gets the cause from all evidence of earlier verdicts.
    pub(super) summary: Summary,
    /// Whether the start time is the agent's, and not an estimate of the server.
    pub(super) start_is_from_agent: bool,
    pub(super) keeps_ticket: bool,
    pub(super) answer: Option<AnswerSender<u64>>,
}

/// An attempt that was sealed, or could not be sealed.
#[derive(Debug)]
pub(super) struct SealedAttempt {
    pub(super) closed: ClosedAttempt,
    /// Whether a verdict on the attempt was given before its end.
    pub(super) was_judged: bool,
    pub(super) result: Result<(), SealError>,
}

/// Seals attempts, a few at the same time.
#[derive(Debug)]
pub(super) struct SealQueue {
    parts: IngestParts,
    waiting_attempts: std::vec::IntoIter<ClosedAttempt>,
    seal_tasks: JoinSet<SealedAttempt>,
}

impl SealQueue {
    /// Starts to seal `attempts`.
    pub(super) fn new(parts: &IngestParts, attempts: Vec<ClosedAttempt>) -> Self {
        Self { parts: parts.clone(), waiting_attempts: attempts.into_iter(), seal_tasks: JoinSet::new() }
    }

    /// Waits for the next attempt that is sealed; `None` if none is left.
    pub(super) async fn next(&mut self) -> Option<SealedAttempt> {
        loop {
            for attempt in self.waiting_attempts.by_ref().take(SEALS_AT_ONCE - self.seal_tasks.len()) {
                self.seal_tasks.spawn(seal(self.parts.clone(), attempt));
            }
            match self.seal_tasks.join_next().await? {
                Ok(sealed) => return Some(sealed),
                // the attempt stays open, and its agent tries again later
                Err(error) => tracing::error!(%error, "sealing an attempt failed unexpectedly"),
            }
        }
    }
}

async fn seal(parts: IngestParts, mut closed: ClosedAttempt) -> SealedAttempt {
    let IngestParts { store, classifier, .. } = &parts;
    let was_judged = judged_early(store, classifier, &mut closed.summary).await;
    let sealed = store::seal(store, &closed.session.attempt, &closed.summary).await;
    SealedAttempt { closed, was_judged, result: sealed.map(drop) }
}
