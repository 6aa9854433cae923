//! Why a connection was closed by the server, and how it is closed.

use std::{error::Error, io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// The answer to a client that does not finish the head of its request in time.
pub(super) const TOO_SLOW: &str =
    "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Most bytes that are read and dropped of what a client sends after its answer: more than the 25
/// MB of GitLab's largest hook.
const LEFT_OVER_BYTES: usize = 32 * 1024 * 1024;

/// Why a connection is closed: what its client did wrong.
#[derive(Debug)]
pub(super) struct Disconnect {
    /// Kind of the mistake, in metrics.
    pub(super) kind: &'static str,
    pub(super) error: String,
    /// The HTTP answer that is sent to the client before the connection is closed; empty for none.
    pub(super) answer: &'static str,
}

impl Disconnect {
    pub(super) fn of(why: &'static str, error: &str) -> Self {
        Self { kind: why, error: error.to_owned(), answer: "" }
    }

    /// The mistake of a client that sent no request, or did not finish the head of its request.
    pub(super) fn too_slow() -> Self {
        Self::of("slow", "no request for too long")
    }

    pub(super) fn unread_answer() -> Self {
        Self::of("unread", "nothing of its answers was taken for too long")
    }

    pub(super) fn is_slow(&self) -> bool {
        self.kind == "slow"
    }

    /// What the client did wrong, if that ended the connection with this error; `None` if the
    /// client has only disconnected.
    pub(super) fn found_in(error: &hyper::Error) -> Option<Self> {
        let mut next = Some(error as &(dyn Error + 'static));
        let mut causes = std::iter::from_fn(|| {
            let cause = next?;
            next = cause.source();
            Some(cause)
        });
        let why = causes.find_map(|cause| {
            let error = cause.downcast_ref::<hyper::Error>()?;
            match () {
                () if error.is_timeout() => Some("slow"),
                () if error.is_parse_too_large() => Some("too_large"),
                () if error.is_parse() => Some("malformed"),
                () => None,
            }
        });
        why.map(|why| Self::of(why, &error.to_string()))
    }
}

/// Writes `last` and closes the connection so that the client can read its answers. If bytes from
/// the client were not read, the system would reset the connection, and answers on their way would
/// be lost. So the rest of the client's request is read and dropped, for at most `within`.
pub(super) async fn close(stream: &mut TcpStream, last: &str, within: Duration) {
    let closing = async {
        stream.write_all(last.as_bytes()).await?;
        stream.shutdown().await?;
        let (mut left, mut buffer) = (LEFT_OVER_BYTES, vec![0; 16 * 1024]);
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
        Ok::<_, io::Error>(())
    };
    // fails only if the client has disconnected, and then nothing is left to do
    let _gone = timeout(within, closing).await;
}
