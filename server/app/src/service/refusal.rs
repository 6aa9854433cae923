//! Why a service refuses a request. Each transport maps the reasons to codes of its own; the text
//! is the same.

use plimsoll_core::domain::FieldViolation;
use plimsoll_store::StoreError;

use crate::{access::identity::ExceededBound, runtime::answer_memory::TooLittleMemory, sessions};

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// A field breaks a rule.
    #[error(transparent)]
    Fault(#[from] FieldViolation),
    /// The caller may not ask for this.
    #[error("{0}")]
    Forbidden(FieldViolation),
    /// The request is not allowed for a reason that is not in one of its fields.
    #[error("{0}")]
    NotAllowed(String),
    /// The object is unknown, or not visible to this caller.
    #[error("{0}")]
    NotFound(String),
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
    /// The caller exceeds one of its bounds.
    #[error("{0}")]
    Exceeded(ExceededBound),
    /// The task that writes to the store refuses the request.
    #[error(transparent)]
    Writer(#[from] sessions::Refusal),
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The server is about to stop.
    #[error("the server stops")]
    Stopping,
    /// The work for the request panicked.
    #[error("counting ended badly: {0}")]
    Panicked(tokio::task::JoinError),
}
