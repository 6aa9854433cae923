//! Why a connection was cut off.

use std::{error::Error, io};

/// What a client hears that does not come to an end with the head of its request.
const TOO_SLOW: &str = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What its client did wrong.
#[derive(Debug)]
pub(super) struct Disconnect {
    /// The kind, in metrics.
    pub(super) why: &'static str,
    pub(super) error: String,
}

impl Disconnect {
    pub(super) fn of(why: &'static str, error: &str) -> Self {
        Self { why, error: error.to_owned() }
    }

    pub(super) fn unread() -> Self {
        Self::of("unread", "nothing of its answers was taken for too long")
    }

    /// What is written to the client. Inside of TLS nothing can be said any more.
    pub(super) fn answer(&self, is_plain: bool) -> &'static str {
        if is_plain && self.why == "slow" { TOO_SLOW } else { "" }
    }

    /// What a client did wrong whose connection has ended with this; `None` for one that is simply gone.
    pub(super) fn found_in(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        let mut causes = std::iter::from_fn(|| {
            let cause = next?;
            next = cause.source();
            Some(cause)
        });
        let why = causes.find_map(|cause| {
            if let Some(error) = cause.downcast_ref::<hyper::Error>() {
                return match () {
                    () if error.is_timeout() => Some("slow"),
                    () if error.is_parse_too_large() => Some("too_large"),
                    () if error.is_parse() => Some("malformed"),
                    () => None,
                };
            }
            let error = cause.downcast_ref::<io::Error>()?;
            (error.kind() == io::ErrorKind::TimedOut).then_some("slow")
        });
        why.map(|why| Self { why, error: error.to_string() })
    }
}
