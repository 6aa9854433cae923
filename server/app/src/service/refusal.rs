//! Why a service gives no answer. Each way in turns it into its own code; the text is the same on all of them.

use plimsoll_core::domain::FieldViolation;
use plimsoll_store::StoreError;

use crate::{access::identity::Exceeded, runtime::answer_memory::TooLittleMemory, sessions};

/// Why a question was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// A field breaks a rule.
    #[error(transparent)]
    Fault(#[from] FieldViolation),
    /// The caller may not ask this.
    #[error("{0}")]
    Forbidden(FieldViolation),
    /// The same where no single field says it.
    #[error("{0}")]
    NotAllowed(String),
    /// What was asked for is not known, or not for this caller.
    #[error("{0}")]
    NotFound(String),
    /// The limit of requests of this kind is reached.
    #[error("limit of {most} {what} reached; retry later")]
    Crowded {
        /// What they are, for people.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// The answer would take more memory than is left.
    #[error(transparent)]
    TooLittleMemory(#[from] TooLittleMemory),
    /// The caller has gone beyond a bound of its own.
    #[error("{0}")]
    Exceeded(Exceeded),
    /// The writer refuses it.
    #[error(transparent)]
    Writer(#[from] sessions::Refusal),
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The server is about to stop.
    #[error("the server stops")]
    Stopping,
    /// The work panicked.
    #[error("counting ended badly: {0}")]
    Panicked(tokio::task::JoinError),
}
