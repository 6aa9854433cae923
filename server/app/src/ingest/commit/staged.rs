//! Changes that were checked but not committed yet: a batch for the store, the attempts as they
//! will be afterwards, and the answers to send when the batch is on disk. If the commit fails, all
//! of this is dropped, and nothing has changed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use plimsoll_core::domain::{Attempt, AttemptId, JobPod, Verdict};
use plimsoll_store::{self as store, BATCH_BYTES, BATCH_OPERATIONS, Batch};

use crate::ingest::{
    Refusal, Reply,
    causes::CauseChange,
    request::{AnswerSender, OpenedAttempt},
    session::Session,
    unwritable,
};

/// Operations and bytes reserved for one more request: a batch of samples as fragments, or the
/// parts of one record.
pub(crate) const RESERVE_OPERATIONS: usize = 64;
const RESERVE_BYTES: usize = 192 * 1024;

/// The changes of one commit.
#[derive(Debug, Default)]
pub(crate) struct StagedCommit {
    pub(crate) batch: Batch,
    pub(crate) staged_sessions: HashMap<AttemptId, StagedSession>,
    pub(crate) promised_answers: Vec<PromisedAnswer>,
    pub(crate) new_attempts: Vec<Arc<Attempt>>,
    /// Attempts with a new verdict.
    pub(crate) newly_judged: HashSet<AttemptId>,
    /// Summaries with a changed cause.
    pub(crate) causes: Vec<CauseChange>,
    pub(crate) samples: u64,
    pub(crate) samples_lost: u64,
}

/// An attempt as it will be when the commit is on disk.
#[derive(Debug)]
pub(crate) struct StagedSession {
    pub(crate) session: Session,
    /// Number of new samples in the commit, stored in fragments.
    pub(crate) fresh: u64,
}

/// An answer that is sent when the commit is on disk.
#[derive(Debug)]
pub(crate) enum PromisedAnswer {
    Opened(AttemptId, AnswerSender<OpenedAttempt>, OpenedAttempt),
    Acknowledged(AttemptId, AnswerSender<u64>, u64),
    Recorded(AnswerSender<Verdict>, Box<Verdict>),
}

impl StagedCommit {
    /// Whether there is nothing to commit and nothing to answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.promised_answers.is_empty() && self.staged_sessions.is_empty()
    }

    /// Sets the new state of an attempt.
    pub(crate) fn stage(&mut self, session: Session, fresh: u64) {
        let earlier = self.staged_sessions.get(&session.attempt.id).map_or(0, |staged| staged.fresh);
        let staged = StagedSession { session, fresh: earlier.saturating_add(fresh) };
        self.staged_sessions.insert(staged.session.attempt.id.clone(), staged);
    }

    /// Adds a summary with a changed cause, if there is one.
    pub(crate) fn change_cause(&mut self, change: Option<CauseChange>) -> Reply<()> {
        if let Some(change) = &change {
            store::put(&mut self.batch, &change.summary).map_err(unwritable)?;
        }
        self.causes.extend(change);
        Ok(())
    }

    /// Adds the sizes of a pod to the commit, and the removal of those of other pods. No caller
    /// waits for the result.
    pub(crate) fn stage_pod(&mut self, pod: &JobPod, forgotten: &[AttemptId]) {
        for id in forgotten {
            store::delete_pod(&mut self.batch, id);
        }
        if let Err(error) = store::put_pod(&mut self.batch, pod) {
            tracing::warn!(%error, "cannot store the sizes of a pod");
        }
    }

    /// Answers every request with an error.
    pub(crate) fn refuse(self, refusal: &Refusal) {
        self.promised_answers.into_iter().for_each(|promise| promise.refuse_with(refusal.clone()));
    }

    /// Whether another request might not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.operations() + RESERVE_OPERATIONS > BATCH_OPERATIONS
            || self.batch.bytes() + RESERVE_BYTES > BATCH_BYTES
    }
}

impl PromisedAnswer {
    /// The attempt for which the agent sends more samples after this answer.
    pub(crate) fn attempt(&self) -> Option<&AttemptId> {
        match self {
            Self::Opened(attempt, ..) | Self::Acknowledged(attempt, ..) => Some(attempt),
            Self::Recorded(..) => None,
        }
    }

    /// Sends the answer; does nothing if the caller no longer waits.
    pub(crate) fn send(self) {
        match self {
            Self::Opened(_, answer, opened) => drop(answer.send(Ok(opened))),
            Self::Acknowledged(_, answer, number) => drop(answer.send(Ok(number))),
            Self::Recorded(answer, verdict) => drop(answer.send(Ok(*verdict))),
        }
    }

    /// Sends an error instead of the answer.
    pub(crate) fn refuse_with(self, refusal: Refusal) {
        match self {
            Self::Opened(_, answer, _) => drop(answer.send(Err(refusal))),
            Self::Acknowledged(_, answer, _) => drop(answer.send(Err(refusal))),
            Self::Recorded(answer, _) => drop(answer.send(Err(refusal))),
        }
    }
}
