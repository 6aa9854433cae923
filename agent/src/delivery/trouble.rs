//! What can stand between an agent and its server, in words and in what to do about it.

use std::{error::Error, io, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Why a conversation ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    /// What to do about it.
    pub(super) kind: Kind,
    /// What it was, in words.
    pub(super) text: String,
    /// How long the server asked to be left alone.
    pub(super) after: Option<Duration>,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There was no connection at all.
    Unreachable,
    /// Come back later.
    Passing,
    /// The numbers do not fit: ask once more where to begin.
    OutOfStep,
    /// Another session holds the attempt.
    Held,
    /// This will never be taken.
    Refused,
}

impl Trouble {
    /// No connection.
    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        Self { kind: Kind::Unreachable, text: innermost(error), after: None }
    }

    /// The server said no.
    pub(super) fn answered(status: &Status) -> Self {
        let kind = match status.code() {
            Code::InvalidArgument => Kind::Refused,
            Code::FailedPrecondition => Kind::OutOfStep,
            Code::AlreadyExists => Kind::Held,
            _ => Kind::Passing,
        };
        let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        Self { kind, text: format!("the server answered: {}: {}", status.code(), status.message()), after }
    }

    /// The server ended the stream without a reason, or said beforehand that it will stop.
    pub(super) fn closed(after: Option<Duration>) -> Self {
        Self { kind: Kind::Passing, text: "the server closed the connection".to_owned(), after }
    }

    /// The server did not answer.
    pub(super) fn silent(patience: Duration) -> Self {
        Self {
            kind: Kind::Passing,
            text: format!("the server did not answer within {patience:?}"),
            after: None,
        }
    }

    /// With a wait that was announced earlier, if this one has none.
    pub(super) fn or_after(self, after: Option<Duration>) -> Self {
        Self { after: self.after.or(after), ..self }
    }
}

/// The innermost reason, which is the one that helps: the outer ones say "transport error".
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        if let Some(error) = deepest.downcast_ref::<io::Error>()
            && error.get_ref().is_none()
        {
            return match error.kind() {
                kind if kind.to_string().starts_with("uncategorized") => error.to_string(),
                kind => kind.to_string(),
            };
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => return deepest.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn the_reason_is_the_innermost_one() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(innermost(&refused), "connection refused");
        let wrapped = io::Error::other(io::Error::from(io::ErrorKind::TimedOut));
        assert_eq!(innermost(&wrapped), "timed out");
        assert_eq!(innermost(&Status::internal("x")), Status::internal("x").to_string());
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_read() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
        let status = Status::with_error_details(Code::ResourceExhausted, "full", details);
        let trouble = Trouble::answered(&status).or_after(Some(Duration::from_secs(9)));
        assert_eq!((trouble.kind, trouble.after), (Kind::Passing, Some(Duration::from_secs(3))));
    }
}
