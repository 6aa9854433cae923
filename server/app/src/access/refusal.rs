//! Why a request is refused. A refused request has changed nothing, except for [`Refusal::TicketUnwritable`]. gRPC, HTTP and pages map the
//! reasons to codes of their own; the text is the same.

use std::{fmt::Display, time::Duration};

use plimsoll_core::{
    domain::{AttemptId, FieldViolation},
    placement::tickets::TicketRefusal,
};
use plimsoll_store::StoreError;

use crate::{access::identity::ExceededBound, runtime::answer_memory::TooLittleMemory};

/// The reply to a request, or why the request was refused.
pub(crate) type Reply<T> = Result<T, Refusal>;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A field breaks a rule.
    #[error(transparent)]
    Fault(#[from] FieldViolation),
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(FieldViolation),
    /// The request is not allowed for a reason that is not in one of its fields.
    #[error("{0}")]
    NotAllowed(String),
    /// The object is unknown, or not visible to this caller.
    #[error("{0}")]
    NotFound(String),
    /// The stream has not opened the attempt.
    #[error("attempt {0} is not open on this stream; send hello for it first")]
    NotOpen(AttemptId),
    /// A sequence number is missing and was not declared lost.
    #[error(
        "attempt {attempt}: number {expected} was expected and {got} came; send from {expected}, or declare the missing numbers as lost"
    )]
    Gap {
        /// The attempt to which the sample belongs.
        attempt: AttemptId,
        /// The sequence number after the last acknowledged one.
        expected: u64,
        /// The sequence number that was received.
        got: u64,
    },
    /// Another agent is writing the attempt, or has written and ended it.
    #[error("attempt {0} belongs to another agent; give this run an id of its own")]
    Held(AttemptId),
    /// The job's own agent has proved its identity: what another caller sent under the id is
    /// dropped.
    #[error(
        "attempt {0} is that of a CI job, and its own agent has proven that; what was sent before under this id is dropped: give \
         this run an id of its own"
    )]
    TakenOver(AttemptId),
    /// The same agent has opened the attempt on a newer stream.
    #[error("attempt {0} was taken over by a newer stream of the same agent")]
    Replaced(AttemptId),
    /// The attempt is still running, as far as the server knows.
    #[error("attempt {0} is still running; ask again when it has ended, or say how it ended")]
    Running(AttemptId),
    /// The limit of different questions answered about the attempt is reached.
    #[error(
        "limit of {most} different questions about {attempt} reached; repeat one of them to get its verdict"
    )]
    Judged {
        /// The attempt that the questions are about.
        attempt: AttemptId,
        /// The limit.
        most: usize,
    },
    /// The limit of concurrent verdict requests is reached.
    #[error("limit of {0} verdict requests reached; retry in some seconds")]
    TooManyVerdicts(usize),
    /// The limit of requests of this kind is reached.
    #[error("limit of {most} {what} reached; retry later")]
    Crowded {
        /// Name of what is limited, for the error text.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// The answer would need more memory than is left.
    #[error(transparent)]
    TooLittleMemory(#[from] TooLittleMemory),
    /// The limit of open attempts is reached.
    #[error("limit of {0} open attempts reached; retry later")]
    Full(usize),
    /// The common limit of open attempts of untrusted callers is reached.
    #[error("limit of {0} open attempts of untrusted callers reached; retry later")]
    FullOfUntrusted(usize),
    /// The caller's own limit is reached.
    #[error("{0}")]
    Exceeded(ExceededBound),
    /// The rules of tickets refuse it.
    #[error(transparent)]
    Ticket(#[from] TicketRefusal),
    /// All numbers were given out that a client can read.
    #[error("all 2147483647 numbers of tickets were given out")]
    TicketNumbers,
    /// The store refuses the change of a ticket, which may still succeed later; asking again with the same id shows the result.
    #[error("the store cannot write: {0}; retry later with the same id")]
    TicketUnwritable(String),
    /// The store refuses writes.
    #[error("the store cannot write: {0}; nothing that was acknowledged is lost, retry later")]
    Unwritable(String),
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Unreadable(String),
    /// The server is about to stop.
    #[error("the server is stopping; come back in a moment")]
    Stopping,
    /// The work for the request panicked.
    #[error("counting ended badly: {0}")]
    Panicked(String),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl Refusal {
    /// When the same request may succeed; `None` if it would be refused again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Full(_)
            | Self::FullOfUntrusted(_)
            | Self::Crowded { .. }
            | Self::TooLittleMemory(_)
            | Self::Ticket(
                TicketRefusal::Full(_)
                | TicketRefusal::Crowded { .. }
                | TicketRefusal::OfJob(_)
                | TicketRefusal::Mixed(_),
            ) => Some(Duration::from_secs(30)),
            Self::Exceeded(exceeded) => Some(exceeded.retry_after),
            Self::TooManyVerdicts(_) => Some(Duration::from_secs(10)),
            Self::Unwritable(_) | Self::Unreadable(_) | Self::TicketUnwritable(_) => {
                Some(Duration::from_secs(5))
            }
            Self::Stopping => Some(Duration::from_secs(2)),
            _ => None,
        }
    }

    /// Name of the reason in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Fault(_) | Self::Forbidden(_) => "invalid",
            Self::NotAllowed(_) => "not_allowed",
            Self::NotFound(_) => "not_found",
            Self::NotOpen(_) => "not_open",
            Self::Gap { .. } => "gap",
            Self::Held(_) => "held",
            Self::TakenOver(_) => "ousted",
            Self::Replaced(_) => "replaced",
            Self::Running(_) => "running",
            Self::Judged { .. } => "judged",
            Self::TooManyVerdicts(_) | Self::Crowded { .. } => "crowded",
            Self::TooLittleMemory(_) => "memory",
            Self::Full(_) => "full",
            Self::FullOfUntrusted(_) => "full_of_untrusted",
            Self::Exceeded(_) => "exceeded",
            Self::Ticket(_) | Self::TicketNumbers => "ticket",
            Self::Unwritable(_) | Self::TicketUnwritable(_) => "unwritable",
            Self::Unreadable(_) => "unreadable",
            Self::Stopping => "stopping",
            Self::Panicked(_) => "panicked",
        }
    }
}

/// The refusal for an error of a write.
pub(crate) fn unwritable(error: impl Display) -> Refusal {
    Refusal::Unwritable(error.to_string())
}
