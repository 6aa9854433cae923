//! Errors of commits and reads. Their texts say what to do.

use std::fmt;

use super::bounds::{BATCH_BYTES, BATCH_OPERATIONS, MAX_KEY, MAX_VALUE};

/// A key, printed as text; bytes that cannot be printed are escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(pub Vec<u8>);

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the store gives, or why it does not.
pub(crate) type StoreResult<T> = Result<T, StoreError>;

/// Which limit a commit exceeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitBound {
    /// The commit has this many writes, which is too many.
    #[error("{0} writes, at most {BATCH_OPERATIONS} fit into one commit: split it")]
    Operations(usize),
    /// The commit has this many bytes, which is too many.
    #[error("{0} bytes of keys and values, at most {BATCH_BYTES} fit into one commit: split it")]
    Bytes(usize),
    /// The commit has a key of this length, which is 0 or too long.
    #[error("a key of {0} bytes; a key has 1 to {MAX_KEY}")]
    Key(usize),
    /// The commit has a value that is too long.
    #[error("a value of {bytes} bytes under key {key}, at most {MAX_VALUE} are allowed: split it into parts")]
    Value {
        /// Key of the value.
        key: KeyText,
        /// Length of the value.
        bytes: usize,
    },
}

/// Why a commit failed, or why its result is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The store cannot write now. The commit may or may not have been applied; the same batch may be sent again.
    #[error("the store cannot write now: {0}")]
    Unavailable(String),
    /// The batch exceeds a limit; nothing was written.
    #[error("the batch is too large: {0}")]
    TooLarge(CommitBound),
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot read now.
    #[error("the store cannot read now: {0}")]
    Unavailable(String),
    /// The record exists and cannot be decoded.
    #[error("the record under key {key} is damaged ({reason}); restore it from a backup, or live without it")]
    Damaged {
        /// Key of the record.
        key: KeyText,
        /// Why the record cannot be decoded, in words.
        reason: String,
    },
}
