//! Requests to the worker, and their answers.

use std::sync::Arc;

use plimsoll_core::domain::{
    Attempt, AttemptId, Exit, FinalTotals, JobPod, Millis, Phase, ReportedOutcome, Sample, SampleAccumulator,
    Verdict,
};
use tokio::sync::{broadcast, oneshot};

use crate::{
    access::identity::Identity,
    ci_outcomes::OutcomeStatus,
    sessions::{refusal::Refusal, stream_handle::StreamHandle},
};

/// Where an answer is sent. It is dropped if the receiver is gone.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// A report of the CI system on one job.
#[derive(Debug)]
pub(crate) struct CiReport {
    pub(crate) reported: ReportedOutcome,
    /// The caller that waits for the result.
    pub(crate) answer: Option<oneshot::Sender<OutcomeStatus>>,
}

/// One request to the worker.
#[derive(Debug)]
pub(crate) enum Request {
    Open {
        attempt: Box<Attempt>,
        stream: StreamHandle,
        /// Whether the agent accepts another id if another run has this one.
        takes_new_id: bool,
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
    /// The sizes of a job's pod; other pods are removed for it.
    NotePod {
        pod: Box<JobPod>,
        forgotten: Vec<AttemptId>,
    },
    Report(CiReport),
    Watch {
        answer: Answer<(Vec<Running>, broadcast::Receiver<Change>)>,
    },
    /// Like [`Self::Watch`], limited to a few, without later changes.
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

/// Samples to append. `lost` numbers before `first_sequence` were dropped by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Append {
    pub(crate) attempt: AttemptId,
    pub(crate) first_sequence: u64,
    pub(crate) lost: u64,
    /// `None` has a number and cannot be used.
    pub(crate) samples: Vec<Option<Sample>>,
}

/// The new and usable part of a batch: the last of `samples` has the batch's last number, and `lost` numbers are missing before the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewSamples {
    pub(crate) first_sequence: u64,
    pub(crate) lost: u64,
    pub(crate) samples: Vec<Sample>,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) attempt: AttemptId,
    pub(crate) last_sequence: u64,
    pub(crate) lost: u64,
    /// `None` if it cannot be used: it took as long as its samples and phases say.
    pub(crate) wall: Option<Millis>,
    pub(crate) exit: Option<Exit>,
    /// Whether the agent saw the end, with an exit status or without.
    pub(crate) ended: bool,
    pub(crate) totals: FinalTotals,
    /// The phases, in order, not overlapping, within `wall`.
    pub(crate) phases: Vec<Phase>,
    /// Whether the ticket is kept for a retry in the same slot.
    pub(crate) keeps_ticket: bool,
    /// See [`Summary::offloaded_to`](plimsoll_core::domain::Summary::offloaded_to).
    pub(crate) offloaded_to: String,
}

/// The end of an attempt, from its agent, or from the server after a long silence.
#[derive(Debug)]
pub(crate) struct EndRequest {
    pub(crate) finish: Finish,
    /// `None`: the server itself ends it.
    pub(crate) stream: Option<StreamHandle>,
    /// The caller that waits for it.
    pub(crate) answer: Option<Answer<u64>>,
}

/// Answer to an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Everything up to this number is on disk.
    pub(crate) acknowledged: u64,
    /// Whether the attempt is closed already.
    pub(crate) sealed: bool,
    /// The id under which it is stored.
    pub(crate) attempt: AttemptId,
}

/// An open attempt with its current state.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// The agent's announcement.
    pub(crate) attempt: Arc<Attempt>,
    /// Measurements so far.
    pub(crate) progress: SampleAccumulator,
}

/// A change for watchers.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// An attempt was opened, or has new samples.
    Running(Box<Running>),
    /// An attempt has ended.
    Ended(AttemptId),
}
