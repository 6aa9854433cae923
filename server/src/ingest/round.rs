//! What the worker has checked and not yet committed: one batch for the store, the attempts as they will be, and the answers
//! that go out when it is on disk. If the commit fails, all of it is dropped, and nothing has changed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    causes::CauseChange, refusal::Refusal, request::Answer, request::Opened, session::Session,
    stage::unwritable,
};
use crate::{
    domain::{Attempt, AttemptId, Verdict},
    store::{self, BATCH_BYTES, BATCH_OPERATIONS, Batch},
};

/// Room that one more request may need: a batch of the wire as fragments, or the parts of one record.
pub(super) const RESERVE_OPERATIONS: usize = 64;
const RESERVE_BYTES: usize = 192 * 1024;

/// What waits for one commit.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) batch: Batch,
    pub(super) staged: HashMap<AttemptId, Staged>,
    pub(super) promises: Vec<Promise>,
    /// Attempts that are new.
    pub(super) begun: Vec<Arc<Attempt>>,
    /// Attempts with a verdict that is new.
    pub(super) judged: HashSet<AttemptId>,
    /// Summaries with another cause than they had.
    pub(super) causes: Vec<CauseChange>,
    pub(super) samples: u64,
    pub(super) lost: u64,
}

/// An attempt as it will be.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) session: Session,
    /// Samples of this round; they will be loose.
    pub(super) fresh: u64,
}

/// An answer that may be given when the commit is on disk.
#[derive(Debug)]
pub(super) enum Promise {
    Opened(AttemptId, Answer<Opened>, Opened),
    Acknowledged(AttemptId, Answer<u64>, u64),
    Recorded(Answer<Verdict>, Box<Verdict>),
    Caused(Answer<()>),
}

impl Round {
    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.promises.is_empty() && self.staged.is_empty()
    }

    /// Puts an attempt into the place of what was staged of it.
    pub(super) fn stage(&mut self, session: Session, fresh: u64) {
        let earlier = self.staged.get(&session.attempt.id).map_or(0, |staged| staged.fresh);
        let staged = Staged { session, fresh: earlier.saturating_add(fresh) };
        self.staged.insert(staged.session.attempt.id.clone(), staged);
    }

    /// Puts a summary with another cause, if there is one.
    pub(super) fn change_cause(&mut self, change: Option<CauseChange>) -> Result<(), Refusal> {
        if let Some(change) = &change {
            store::put_summary(&mut self.batch, &change.summary).map_err(unwritable)?;
        }
        self.causes.extend(change);
        Ok(())
    }

    /// Says of everything that it did not happen.
    pub(super) fn refuse(self, refusal: &Refusal) {
        self.promises.into_iter().for_each(|promise| promise.break_with(refusal.clone()));
    }

    /// Another request might not fit.
    pub(super) fn is_full(&self) -> bool {
        is_full(&self.batch)
    }
}

/// Another request might not fit.
pub(super) fn is_full(batch: &Batch) -> bool {
    batch.operations() + RESERVE_OPERATIONS > BATCH_OPERATIONS || batch.bytes() + RESERVE_BYTES > BATCH_BYTES
}

impl Promise {
    /// The attempt whose samples follow this answer.
    pub(super) fn attempt(&self) -> Option<&AttemptId> {
        match self {
            Self::Opened(attempt, ..) | Self::Acknowledged(attempt, ..) => Some(attempt),
            Self::Recorded(..) | Self::Caused(..) => None,
        }
    }

    /// Gives the answer. Whoever asked may be gone: then nobody is told, which is what they wanted.
    pub(super) fn keep(self) {
        match self {
            Self::Opened(_, answer, opened) => drop(answer.send(Ok(opened))),
            Self::Acknowledged(_, answer, number) => drop(answer.send(Ok(number))),
            Self::Recorded(answer, verdict) => drop(answer.send(Ok(*verdict))),
            Self::Caused(answer) => drop(answer.send(Ok(()))),
        }
    }

    /// Says why the answer cannot be given.
    pub(super) fn break_with(self, refusal: Refusal) {
        match self {
            Self::Opened(_, answer, _) => drop(answer.send(Err(refusal))),
            Self::Acknowledged(_, answer, _) => drop(answer.send(Err(refusal))),
            Self::Recorded(answer, _) => drop(answer.send(Err(refusal))),
            Self::Caused(answer) => drop(answer.send(Err(refusal))),
        }
    }
}
