//! Writes checked requests to disk: one commit is filled while another one is written.
//!
//! The filled commit is sent to the store only when the one before is on disk, because its changes
//! build on those. If only the one before failed, the sequence numbers of an attempt would have a
//! gap that no agent fills. So both fail together, and all callers that wait for either get the
//! error.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{CommitError, PendingCommit, Store};
use tokio::time::Instant;

use super::staged::{StagedCommit, StagedSession};
use crate::{ingest::Refusal, runtime::metrics::Metrics};

/// How a commit ended.
pub(crate) type CommitOutcome = Result<(), CommitError>;

/// A commit that was sent to the store.
#[derive(Debug)]
struct SentCommit {
    /// Changes of the commit. Their batch was taken by the store.
    staged: StagedCommit,
    began: Instant,
    /// The running write; `None` if there was nothing to write.
    committing: Option<PendingCommit>,
}

/// The two commits of the worker.
#[derive(Debug)]
pub(crate) struct CommitPipeline {
    store: Store,
    metrics: Arc<Metrics>,
    /// The commit that is being filled.
    filling: StagedCommit,
    /// The commit that the store is writing, if any.
    in_flight: Option<SentCommit>,
    /// When the store last refused writes. Samples that agents sent until then may be lost.
    refused: Option<Instant>,
}

impl CommitPipeline {
    /// Starts without commits.
    pub(crate) fn new(store: Store, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics, filling: StagedCommit::default(), in_flight: None, refused: None }
    }

    /// The commit that is being filled.
    pub(crate) fn filling(&mut self) -> &mut StagedCommit {
        &mut self.filling
    }

    /// Whether the commit being filled has no space for another request.
    pub(crate) fn is_full(&self) -> bool {
        self.filling.is_full()
    }

    /// Whether the store has no commit to write.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// An attempt as it will be when everything staged is on disk.
    pub(crate) fn staged_session(&self, id: &AttemptId) -> Option<&StagedSession> {
        let written = || self.in_flight.as_ref()?.staged.staged_sessions.get(id);
        self.filling.staged_sessions.get(id).or_else(written)
    }

    /// The states of an attempt in both commits.
    pub(crate) fn staged_sessions_mut(&mut self, id: &AttemptId) -> impl Iterator<Item = &mut StagedSession> {
        let written = self.in_flight.as_mut().and_then(|sent| sent.staged.staged_sessions.get_mut(id));
        self.filling.staged_sessions.get_mut(id).into_iter().chain(written)
    }

    /// Number of new attempts in both commits.
    pub(crate) fn new_attempts(&self) -> usize {
        let written = self.in_flight.as_ref().map_or(0, |sent| sent.staged.new_attempts.len());
        self.filling.new_attempts.len() + written
    }

    pub(crate) fn holds_verdict_on(&self, id: &AttemptId) -> bool {
        let is_written = |sent: &SentCommit| sent.staged.newly_judged.contains(id);
        self.filling.newly_judged.contains(id) || self.in_flight.as_ref().is_some_and(is_written)
    }

    /// Waits for the result of the running commit; waits for ever if none runs. The future may be
    /// dropped and the method called again, until it has returned.
    pub(crate) async fn outcome(&mut self) -> CommitOutcome {
        match &mut self.in_flight {
            Some(SentCommit { committing: Some(committing), .. }) => committing.done().await.map(drop),
            Some(_) => Ok(()),
            None => std::future::pending().await,
        }
    }

    /// Sends the filled commit to the store. No other commit may be running.
    pub(crate) async fn send(&mut self) {
        let mut staged = std::mem::take(&mut self.filling);
        if staged.is_empty() {
            return;
        }
        let (batch, began) = (std::mem::take(&mut staged.batch), Instant::now());
        let committing = if batch.is_empty() { Ok(None) } else { self.store.begin(batch).await.map(Some) };
        match committing {
            Ok(committing) => self.in_flight = Some(SentCommit { staged, began, committing }),
            Err(error) => {
                let refusal = self.failed(&error, staged.promised_answers.len());
                staged.refuse(&refusal);
            }
        }
    }

    /// Ends the running commit; returns its changes if they are on disk. If it failed, the commit
    /// being filled fails, too.
    pub(crate) fn end_commit(&mut self, outcome: CommitOutcome) -> Option<StagedCommit> {
        let SentCommit { staged, began, committing } = self.in_flight.take()?;
        if committing.is_some() {
            self.metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
        }
        if let Err(error) = outcome {
            let next = std::mem::take(&mut self.filling);
            let refusal = self.failed(&error, staged.promised_answers.len() + next.promised_answers.len());
            staged.refuse(&refusal);
            next.refuse(&refusal);
            return None;
        }
        self.metrics.samples.inc_by(staged.samples);
        self.metrics.samples_lost.inc_by(staged.samples_lost);
        Some(staged)
    }

    /// Records that the store refuses writes.
    pub(crate) fn note_refused(&mut self, now: Instant) {
        self.refused = Some(now);
    }

    /// Whether the store refused writes within this time.
    pub(crate) fn was_refused_within(&self, time: Duration, now: Instant) -> bool {
        self.refused.is_some_and(|refused| now.saturating_duration_since(refused) <= time)
    }

    /// Records that a commit failed; returns the error for its callers.
    fn failed(&mut self, error: &CommitError, promises: usize) -> Refusal {
        if matches!(error, CommitError::Unavailable(_)) {
            self.refused = Some(Instant::now());
        }
        tracing::error!(%error, promises, "commit failed, nothing is acknowledged");
        Refusal::Unwritable(error.to_string())
    }
}
