//! What the worker is asked, and what it answers.

use std::sync::Arc;

use tokio::sync::{broadcast, oneshot};

use super::{
    refusal::Refusal,
    session::{Append, Finish, StreamHandle},
};
use crate::{
    domain::{Attempt, AttemptId, Cause, EvidenceSource, Progress, Told, Verdict},
    identity::Identity,
};

/// Where an answer goes. Nobody may wait for it any more; then it is dropped.
pub(super) type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// One request to the worker.
#[derive(Debug)]
pub(super) enum Request {
    Open {
        attempt: Box<Attempt>,
        stream: StreamHandle,
        answer: Answer<Opened>,
    },
    Append {
        append: Append,
        stream: StreamHandle,
        answer: Answer<u64>,
    },
    Finish {
        finish: Finish,
        stream: StreamHandle,
        answer: Answer<u64>,
    },
    Leave {
        stream: StreamHandle,
        attempts: Vec<AttemptId>,
    },
    Record {
        fingerprint: u64,
        verdict: Box<Verdict>,
        answer: Answer<Verdict>,
    },
    /// The cause that the verdict in force on an attempt found.
    Recause {
        attempt: AttemptId,
        found: (Cause, Option<EvidenceSource>),
        answer: Answer<()>,
    },
    Settle {
        told: Told,
        /// Who wants to know what became of it.
        answer: Option<oneshot::Sender<Settled>>,
    },
    Watch {
        answer: Answer<(Vec<Running>, broadcast::Receiver<Change>)>,
    },
    /// As [`Self::Watch`], of few of them, and without the changes.
    Highest {
        most: usize,
        caller: Arc<Identity>,
        answer: Answer<(Vec<Running>, usize)>,
    },
    Find {
        id: AttemptId,
        answer: Answer<Option<Running>>,
    },
}

/// What became of what a CI system told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is on disk how the attempt ended.
    Now,
    /// It was known already.
    Known,
    /// The attempt is open, or not known: what was told waits in memory for its end.
    Remembered,
    /// The store takes nothing.
    Unwritable,
}

impl Settled {
    /// The word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "settled",
            Self::Known => "known",
            Self::Remembered => "remembered",
            Self::Unwritable => "unwritable",
        }
    }
}

/// Answer to an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Everything up to this number is on disk.
    pub(crate) acknowledged: u64,
    /// The attempt is closed already.
    pub(crate) sealed: bool,
}

/// An open attempt as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// What its agent announced.
    pub(crate) attempt: Arc<Attempt>,
    /// What is known so far.
    pub(crate) progress: Progress,
}

/// What watchers are told.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// An attempt was opened, or has new samples.
    Running(Box<Running>),
    /// An attempt has ended.
    Ended(AttemptId),
}
