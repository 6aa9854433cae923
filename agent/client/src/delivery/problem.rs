//! Why a delivery fails, as text for people, and what the agent does about it.

use std::{error::Error as _, time::Duration};

use plimsoll_proto::shown;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    reasons::{broken_connection, innermost, not_grpc_message, refusal},
    servers::NoServer,
};

/// Why a conversation ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryProblem {
    /// What the agent does about the problem.
    pub(super) kind: ProblemKind,
    /// The reason, as text for people.
    pub(super) text: String,
    /// How long the server asked the agent to wait before it connects again.
    pub(super) after: Option<Duration>,
}

/// What the agent does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemKind {
    /// The server did not answer at all.
    Unreachable,
    /// Standbys answered, and no server serves: one of them will take over soon.
    Takeover,
    /// The server is busy or is stopping: the agent tries again later.
    Passing,
    /// The sequence numbers do not fit: the agent asks the server once more where to begin.
    OutOfStep,
    /// Another session currently delivers the attempt.
    Held,
    /// The server does not accept this agent as a caller. Only an operator can change that, for the agent or on the server. The attempt
    /// itself is valid.
    Denied,
    /// The server accepts this agent, but not for this attempt: it belongs to a job, and the agent does not have the token of that job. Other
    /// attempts may be accepted.
    Forbidden,
    /// The server will never accept this attempt.
    Refused,
}

impl DeliveryProblem {
    /// The problem that no address of the servers serves.
    pub(super) fn no_server(reason: NoServer) -> Self {
        let kind = if reason.is_standby { ProblemKind::Takeover } else { ProblemKind::Unreachable };
        Self { kind, text: reason.text, after: None }
    }

    /// The agent cannot read its token. A token file that is being renewed may exist again in a moment.
    pub(super) fn unreadable_token(text: String) -> Self {
        Self { kind: ProblemKind::Passing, text, after: None }
    }

    /// The problem when the first message was not accepted: the server refused it, or the connection broke before the server answered.
    pub(super) fn from_first_status(status: &Status, server: &str) -> Self {
        match broken_connection(status, server) {
            Some(text) => Self { kind: ProblemKind::Unreachable, text, after: None },
            None => Self::from_status(status),
        }
    }

    /// The problem that the server refused a later message, or that the connection broke.
    pub(super) fn from_status(status: &Status) -> Self {
        let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        let text = match (not_grpc_message(status), status.source()) {
            (Some(text), _) => text,
            (None, Some(broken)) => format!("the connection broke: {}", innermost(broken)),
            (None, None) => {
                let message = shown::escaped_line(status.message());
                format!("the server answered: {}", refusal(status.code(), &message))
            }
        };
        Self { kind: kind_of(status.code()), text, after }
    }

    /// The problem that the server ended the stream without a reason, or after it announced that it would stop.
    pub(super) fn closed(after: Option<Duration>) -> Self {
        Self { kind: ProblemKind::Passing, text: "the server closed the connection".to_owned(), after }
    }

    /// The problem that the server answered about another attempt, `answered`.
    pub(super) fn wrong_attempt(answered: &str) -> Self {
        let text = format!("the server answered about another attempt: {}", shown::escaped_line(answered));
        Self { kind: ProblemKind::Passing, text, after: None }
    }

    /// The problem that the server did not answer within `patience`.
    pub(super) fn no_answer(patience: Duration) -> Self {
        Self {
            kind: ProblemKind::Passing,
            text: format!("the server did not answer within {patience:?}"),
            after: None,
        }
    }

    /// This problem; if it has no wait of its own, with the wait `after` that the server announced earlier.
    pub(super) fn with_wait(self, after: Option<Duration>) -> Self {
        Self { after: self.after.or(after), ..self }
    }
}

/// What a gRPC status code means for an attempt (codes: grpc/doc/statuscodes.md). All codes are listed, so that a refusal is never retried
/// for ever.
fn kind_of(code: Code) -> ProblemKind {
    match code {
        // OUT_OF_RANGE: the message is larger than the server accepts, and would be as large when sent again
        Code::InvalidArgument | Code::OutOfRange | Code::DataLoss => ProblemKind::Refused,
        Code::FailedPrecondition => ProblemKind::OutOfStep,
        Code::AlreadyExists => ProblemKind::Held,
        // UNIMPLEMENTED and NOT_FOUND: another program listens there, or a proxy that has no server behind it
        Code::Unauthenticated | Code::Unimplemented | Code::NotFound => ProblemKind::Denied,
        Code::PermissionDenied => ProblemKind::Forbidden,
        // a broken connection is reported as UNKNOWN or INTERNAL, so these codes are retried
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => ProblemKind::Passing,
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_non_grpc_response_suggests_port_and_proxy() {
        let text = |message: &str| DeliveryProblem::from_status(&Status::unavailable(message)).text;
        let proxy = text("grpc-status header missing, mapped from HTTP status code 502");
        assert!(proxy.starts_with("the answer was HTTP status 502 and no gRPC: use the port"), "{proxy}");
        assert!(proxy.contains("7410"), "{proxy}");
        let page =
            "protocol error: received message with invalid compression flag: 60 (valid flags are 0 and 1)";
        assert!(text(page).starts_with("the answer was a page"), "{}", text(page));
        assert_eq!(text("full"), format!("the server answered: {}: full", Code::Unavailable));
    }

    #[test]
    fn permanent_refusals_are_not_retried_forever() {
        let kinds = |wanted| (0..=16).map(Code::from).filter(move |code| kind_of(*code) == wanted);
        let refused: Vec<Code> = kinds(ProblemKind::Refused).collect();
        assert_eq!(refused, [Code::InvalidArgument, Code::OutOfRange, Code::DataLoss]);
        assert_eq!(kinds(ProblemKind::Denied).count(), 3);
        assert_eq!(kinds(ProblemKind::Forbidden).collect::<Vec<_>>(), [Code::PermissionDenied]);
        assert_eq!(kinds(ProblemKind::Passing).count(), 8);
    }

    #[test]
    fn the_servers_retry_delay_is_used() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
        let status = Status::with_error_details(Code::ResourceExhausted, "full", details);
        let trouble = DeliveryProblem::from_status(&status).with_wait(Some(Duration::from_secs(9)));
        assert_eq!((trouble.kind, trouble.after), (ProblemKind::Passing, Some(Duration::from_secs(3))));
    }
}
