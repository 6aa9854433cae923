//! What can stand between an agent and its server, in words and in what to do about it.

use std::{error::Error, io, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::tls;

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
    /// Nobody answered at all.
    Unreachable,
    /// Come back later.
    Passing,
    /// The numbers do not fit: ask once more where to begin.
    OutOfStep,
    /// Another session holds the attempt.
    Held,
    /// The server serves nobody like us: only people can mend that, on one side or the other. It is not the attempt's fault.
    Denied,
    /// The server serves us, but not this attempt: it is of a job whose token we have not. Others may be welcome.
    Forbidden,
    /// This attempt will never be taken.
    Refused,
}

impl Trouble {
    /// No connection.
    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        Self { kind: Kind::Unreachable, text: innermost(error), after: None }
    }

    /// There should be a token, and it cannot be read: a file that is renewed may be there in a moment.
    pub(super) fn nameless(text: String) -> Self {
        Self { kind: Kind::Passing, text, after: None }
    }

    /// The server said no to the first message, or the connection broke before it could.
    pub(super) fn refused_at_once(status: &Status, server: &str) -> Self {
        match broken(status, server) {
            Some(text) => Self { kind: Kind::Unreachable, text, after: None },
            None => Self::answered(status),
        }
    }

    /// The server said no, or the connection broke.
    pub(super) fn answered(status: &Status) -> Self {
        let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        let text = match (no_grpc(status), status.source()) {
            (Some(text), _) => text,
            (None, Some(broken)) => format!("the connection broke: {}", innermost(broken)),
            (None, None) => format!("the server answered: {}: {}", status.code(), status.message()),
        };
        Self { kind: kind_of(status.code()), text, after }
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

/// What a code means for an attempt. The codes are those of gRPC (grpc/doc/statuscodes.md); each has its place here, so that a
/// new way of refusing is never tried again for ever.
fn kind_of(code: Code) -> Kind {
    match code {
        // OUT_OF_RANGE: a message larger than the server takes. It is not smaller the next time.
        Code::InvalidArgument | Code::OutOfRange | Code::DataLoss => Kind::Refused,
        Code::FailedPrecondition => Kind::OutOfStep,
        Code::AlreadyExists => Kind::Held,
        // UNIMPLEMENTED and NOT_FOUND: another program listens there, or a proxy has nobody behind it
        Code::Unauthenticated | Code::Unimplemented | Code::NotFound => Kind::Denied,
        Code::PermissionDenied => Kind::Forbidden,
        // UNKNOWN and INTERNAL are what a broken connection is called
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => Kind::Passing,
    }
}

/// What broke before anybody answered, for people; `None` if the status is an answer. What listens at `server` may speak another
/// protocol: then it closes the connection, and no more than that is known.
pub(crate) fn broken(status: &Status, server: &str) -> Option<String> {
    let reason = innermost(status.source()?);
    let hint = if server.starts_with("https") {
        ""
    } else {
        "; a port with TLS needs https://, and HTTP/1 is no gRPC"
    };
    Some(format!("the connection broke: {reason}{hint}"))
}

/// An answer that does not speak gRPC, for people: that of a server for HTTP, or of a proxy. `None` for any other.
pub(crate) fn no_grpc(status: &Status) -> Option<String> {
    // tonic's words: the HTTP status, or a page where a message should be
    let code = status.message().strip_prefix("grpc-status header missing, mapped from HTTP status code ");
    let is_page = status.message().contains("invalid compression flag");
    let what = match code {
        Some(code) => format!("HTTP status {code} and no gRPC"),
        None if is_page => "a page and no gRPC".to_owned(),
        None => return None,
    };
    Some(format!(
        "the answer was {what}: use the port that plimsoll-server has for gRPC (grpc_listen, 7410 if it was not set); a proxy \
         before it must pass gRPC on, over HTTP/2"
    ))
}

/// The innermost reason, which is the one that helps: the outer ones say "transport error".
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        if let Some(error) = deepest.downcast_ref::<io::Error>() {
            match error.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => deepest = inner,
                Some(_) => {}
                None => return in_io_words(error),
            }
        }
        if let Some(error) = deepest.downcast_ref::<rustls::Error>() {
            return tls::in_words(error);
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => return tls::of_words(deepest.to_string()),
        }
    }
}

fn in_io_words(error: &io::Error) -> String {
    match error.kind() {
        kind if kind.to_string().starts_with("uncategorized") => error.to_string(),
        kind => kind.to_string(),
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
        let alert = io::Error::other("received fatal alert: CertificateRequired");
        assert!(innermost(&alert).contains("--client-cert FILE"));
        assert_eq!(innermost(&Status::internal("x")), Status::internal("x").to_string());
    }

    #[test]
    fn an_answer_that_is_no_grpc_names_the_port_and_the_proxy() {
        let text = |message: &str| Trouble::answered(&Status::unavailable(message)).text;
        let proxy = text("grpc-status header missing, mapped from HTTP status code 502");
        assert!(
            proxy.starts_with("the answer was HTTP status 502 and no gRPC: use the port")
                && proxy.contains("7410"),
            "{proxy}"
        );
        let page =
            "protocol error: received message with invalid compression flag: 60 (valid flags are 0 and 1)";
        assert!(text(page).starts_with("the answer was a page"), "{}", text(page));
        assert_eq!(text("full"), format!("the server answered: {}: full", Code::Unavailable));
    }

    #[test]
    fn no_answer_is_tried_for_ever_that_cannot_change() {
        let kinds = |wanted| (0..=16).map(Code::from).filter(move |code| kind_of(*code) == wanted);
        let refused: Vec<Code> = kinds(Kind::Refused).collect();
        assert_eq!(refused, [Code::InvalidArgument, Code::OutOfRange, Code::DataLoss]);
        assert_eq!(kinds(Kind::Denied).count(), 3);
        assert_eq!(kinds(Kind::Forbidden).collect::<Vec<_>>(), [Code::PermissionDenied]);
        assert_eq!(kinds(Kind::Passing).count(), 8);
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_read() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
        let status = Status::with_error_details(Code::ResourceExhausted, "full", details);
        let trouble = Trouble::answered(&status).or_after(Some(Duration::from_secs(9)));
        assert_eq!((trouble.kind, trouble.after), (Kind::Passing, Some(Duration::from_secs(3))));
    }
}
