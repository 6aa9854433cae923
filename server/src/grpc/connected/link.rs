//! One connection that can be spoken over, plain or with TLS, and what ends it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::server::TlsStream;

use super::{Arrived, Peer};
use crate::{
    frames::Metered,
    incoming::{Connection, Requests},
    log::AUDIT,
    tls::Expiry,
};

/// A client that has not sent the preface of HTTP/2 after so long is cut off: every client of gRPC sends it at once.
const PREFACE_WITHIN: Duration = Duration::from_secs(10);
/// A client that nobody let in after so long is cut off: an agent sends its first call at once.
const ADMITTED_WITHIN: Duration = Duration::from_mins(1);
/// A client without a call for so long is cut off; it connects again when it has one. Agents have one as long as they run.
pub(super) const UNUSED: Duration = Duration::from_mins(5);
/// Bytes of that preface (RFC 9113, section 3.4).
pub(super) const PREFACE_BYTES: usize = 24;

/// A connection that can be spoken over.
pub(in crate::grpc) struct Link {
    stream: Stream,
    /// Bytes of the preface that the client has still to send before it may take its time.
    preface: usize,
    /// When it is looked whether the client is late: for its preface at first, then for a call.
    look: Pin<Box<Sleep>>,
    /// Of the certificate that the client has shown.
    expiry: Option<Expiry>,
}

#[derive(Debug)]
pub(super) enum Stream {
    Plain(Connection),
    Tls { stream: Box<TlsStream<Connection>>, peer: Peer },
}

impl Link {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, preface: PREFACE_BYTES, look: Box::pin(sleep(PREFACE_WITHIN)), expiry: None }
    }

    /// The same, which ends with this certificate.
    pub(super) fn until(self, expiry: Option<Expiry>) -> Self {
        Self { expiry, ..self }
    }

    pub(super) fn metered(self, cut: Counter) -> Arrived {
        let peer = self.peer();
        Arrived { io: Metered::new(self, peer.address, cut), peer }
    }

    /// The first bytes of a plain connection, which stay where they are: how many came, 0 if none did in the time for them or
    /// the connection has TLS.
    pub(super) async fn peek(&self, buffer: &mut [u8]) -> usize {
        match &self.stream {
            Stream::Plain(connection) => {
                let came = timeout(PREFACE_WITHIN, connection.stream.peek(buffer)).await;
                came.ok().and_then(Result::ok).unwrap_or(0)
            }
            Stream::Tls { .. } => 0,
        }
    }

    fn peer(&self) -> Peer {
        match &self.stream {
            Stream::Plain(connection) => Peer {
                address: connection.peer,
                names: Arc::default(),
                requests: connection.requests.clone(),
            },
            Stream::Tls { peer, .. } => peer.clone(),
        }
    }

    pub(super) fn requests(&self) -> &Requests {
        match &self.stream {
            Stream::Plain(connection) => &connection.requests,
            Stream::Tls { peer, .. } => &peer.requests,
        }
    }

    /// An error once the client's certificate has ended: whatever it asks for on this connection ends with it, and it may come again with
    /// another one.
    fn over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(expiry) = &mut self.expiry else { return Poll::Pending };
        ready!(expiry.poll_over(cx));
        let address = self.peer().address;
        tracing::warn!(target: AUDIT, %address, "ended a connection: the client's certificate has expired");
        Poll::Ready(io::Error::new(io::ErrorKind::PermissionDenied, "the client's certificate has expired"))
    }

    /// An error once the client has not begun for too long, or has had no call. Calls come and go meanwhile without a word of it: they
    /// are looked at when the time is up.
    fn late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let late = |why| Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why));
        loop {
            ready!(self.look.as_mut().poll(cx));
            if self.preface > 0 {
                return late("no preface of HTTP/2");
            }
            let Some(left) = self.requests().left(ADMITTED_WITHIN, UNUSED) else {
                return late("no call for too long");
            };
            self.look.as_mut().reset(Instant::now() + left);
        }
    }
}

/// The same call on either kind of stream.
macro_rules! either {
    ($link:expr, $stream:ident => $call:expr) => {
        match &mut $link.get_mut().stream {
            Stream::Plain(connection) => {
                let $stream = Pin::new(connection);
                $call
            }
            Stream::Tls { stream, .. } => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.over(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let read = either!(self.as_mut(), stream => stream.poll_read(cx, buffer));
        match read {
            Poll::Pending => return self.late(cx).map(Err),
            Poll::Ready(Ok(())) => {
                let came = buffer.filled().len().saturating_sub(before);
                self.preface = self.preface.saturating_sub(came);
            }
            Poll::Ready(Err(_)) => {}
        }
        read
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(connection) => connection.is_write_vectored(),
            Stream::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
