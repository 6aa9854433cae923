//! Why a ticket request is refused. A refused request has changed nothing, except for [`Refusal::Unwritable`].

use std::time::Duration;

use plimsoll_core::{domain::FieldViolation, placement::tickets::TicketRefusal};

/// Why a question about a ticket was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A field breaks a rule.
    #[error(transparent)]
    Fault(#[from] FieldViolation),
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(FieldViolation),
    /// The rules of tickets refuse it.
    #[error(transparent)]
    Refused(#[from] TicketRefusal),
    /// The store refuses writes: the request may still succeed later; asking again with the same id shows the result.
    #[error("the store cannot write: {0}; retry later with the same id")]
    Unwritable(String),
    /// All numbers were given out that a client can read.
    #[error("all 2147483647 numbers of tickets were given out")]
    Numbers,
    /// The server is about to stop.
    #[error("the server is stopping; come back in a moment")]
    Stopping,
}

impl Refusal {
    /// When to try again; `None` if the same request would be refused again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(
                TicketRefusal::Full(_) | TicketRefusal::Crowded { .. } | TicketRefusal::Mixed(_),
            ) => Some(Duration::from_secs(30)),
            Self::Unwritable(_) => Some(Duration::from_secs(5)),
            Self::Stopping => Some(Duration::from_secs(2)),
            _ => None,
        }
    }
}
