//! Requests to the worker (the task that owns the open attempts), and their answers.

use std::sync::Arc;

use plimsoll_core::domain::{
    Attempt, AttemptId, Exit, FinalTotals, JobPod, LargestProcess, Millis, Phase, ReportedOutcome, Rescue,
    Sample, SampleAccumulator, Verdict,
};
use plimsoll_proto::v1::ActsNow;
use tokio::sync::{broadcast, oneshot};

use crate::{
    access::identity::Identity,
    ingest::{Reply, ci_outcomes::OutcomeStatus, stream_handle::StreamHandle},
};

/// Where an answer is sent; sending does nothing if the caller no longer waits.
pub(crate) type AnswerSender<T> = oneshot::Sender<Reply<T>>;

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
        /// Whether the agent accepts another id if another run has the requested one.
        takes_new_id: bool,
        answer: AnswerSender<OpenedAttempt>,
    },
    Append {
        append: Append,
        stream: StreamHandle,
        answer: AnswerSender<u64>,
    },
    Finish {
        finish: Box<Finish>,
        stream: StreamHandle,
        answer: AnswerSender<u64>,
    },
    Leave {
        stream: StreamHandle,
        attempts: Vec<AttemptId>,
    },
    Record {
        fingerprint: u64,
        verdict: Box<Verdict>,
        answer: AnswerSender<Verdict>,
    },
    /// Stores the sizes of a job's pod; removes those of other pods to make space.
    NotePod {
        pod: Box<JobPod>,
        forgotten: Vec<AttemptId>,
    },
    Report(CiReport),
    Watch {
        answer: AnswerSender<(Vec<RunningAttempt>, broadcast::Receiver<AttemptChange>)>,
    },
    /// Like [`Self::Watch`], but only the attempts with the highest need, without later changes.
    Highest {
        most: usize,
        caller: Arc<Identity>,
        answer: AnswerSender<(Vec<RunningAttempt>, usize)>,
    },
    Find {
        id: AttemptId,
        answer: AnswerSender<Option<RunningAttempt>>,
    },
}

/// Samples to append. The agent dropped `lost` samples with sequence numbers before
/// `first_sequence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Append {
    pub(crate) attempt: AttemptId,
    pub(crate) first_sequence: u64,
    pub(crate) lost: u64,
    /// The samples in order; `None` for a sample that has a sequence number but cannot be used.
    pub(crate) samples: Vec<Option<Sample>>,
    /// What the agent had done about the memory limit by the last sample.
    pub(crate) acts: Option<ActsNow>,
}

/// The part of a batch that is new and usable. `samples` end with the batch's last sequence number;
/// `lost` numbers before them are missing.
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
    /// Duration; `None` if the agent's value cannot be used: the duration then follows from samples
    /// and phases.
    pub(crate) wall: Option<Millis>,
    pub(crate) exit: Option<Exit>,
    /// Whether the agent observed the end, with or without an exit status.
    pub(crate) ended: bool,
    pub(crate) totals: FinalTotals,
    /// The phases in order. They do not overlap and are within `wall`.
    pub(crate) phases: Vec<Phase>,
    pub(crate) largest_process: Option<LargestProcess>,
    /// What rescue did, or would have done; its times are within `wall`.
    pub(crate) rescue: Option<Rescue>,
    /// Whether the ticket is kept, so that a retry can use its slot.
    pub(crate) keeps_ticket: bool,
    /// Name of the service that ran the build: see
    /// [`Summary::offloaded_to`](plimsoll_core::domain::Summary::offloaded_to).
    pub(crate) offloaded_to: String,
}

impl Finish {
    /// An end of which nothing else is known.
    pub(crate) fn unknown(attempt: AttemptId, last_sequence: u64) -> Self {
        Self {
            attempt,
            last_sequence,
            lost: 0,
            wall: None,
            exit: None,
            ended: false,
            totals: FinalTotals::default(),
            phases: Vec::new(),
            largest_process: None,
            rescue: None,
            keeps_ticket: false,
            offloaded_to: String::new(),
        }
    }
}

/// The end of an attempt: reported by its agent, or made by the server after a long silence.
#[derive(Debug)]
pub(crate) struct EndRequest {
    pub(crate) finish: Finish,
    /// Stream of the agent; `None` if the server ends the attempt.
    pub(crate) stream: Option<StreamHandle>,
    /// The caller that waits for the result.
    pub(crate) answer: Option<AnswerSender<u64>>,
}

/// Answer to an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenedAttempt {
    /// Everything up to this sequence number is on disk.
    pub(crate) acknowledged: u64,
    /// Whether the attempt is sealed already.
    pub(crate) sealed: bool,
    /// The id under which the attempt is stored.
    pub(crate) attempt: AttemptId,
}

/// An open attempt with its current state.
#[derive(Debug, Clone)]
pub(crate) struct RunningAttempt {
    /// The attempt as its agent announced it.
    pub(crate) attempt: Arc<Attempt>,
    /// Totals of the samples so far.
    pub(crate) progress: SampleAccumulator,
    /// What its agent has done about the memory limit, if anything.
    pub(crate) acts: Option<ActsNow>,
}

/// A change of an attempt, for watchers.
#[derive(Debug, Clone)]
pub(crate) enum AttemptChange {
    /// An attempt was opened, or has new samples.
    Running(Box<RunningAttempt>),
    /// An attempt has ended.
    Ended(AttemptId),
}
