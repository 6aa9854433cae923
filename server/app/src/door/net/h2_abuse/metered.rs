//! An HTTP/2 connection that is closed when its client floods it with frames that carry no message.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::FrameMeter;
use crate::door::net::accept::ConnectionRequests;

/// A connection whose HTTP/2 frames are counted. It wraps a TLS stream, not the other way round, so
/// that it sees the frames.
#[derive(Debug)]
pub(crate) struct Metered<I> {
    io: I,
    frames: FrameMeter,
    peer: SocketAddr,
    requests: ConnectionRequests,
    /// Counts connections that were closed for a flood.
    cut: Counter,
}

impl<I> Metered<I> {
    pub(crate) fn new(io: I, (peer, requests): (SocketAddr, ConnectionRequests), cut: Counter) -> Self {
        Self { io, frames: FrameMeter::new(Instant::now()), peer, requests, cut }
    }

    /// Counts the frames in bytes that the client has sent.
    fn count_read(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.requests.was_admitted() {
            self.frames.mark_admitted();
        }
        self.frames.note_received(bytes).map_err(|flood| {
            self.cut.inc();
            tracing::info!(peer = %self.peer, error = %flood, "cut a connection off");
            io::Error::other(flood)
        })
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Metered<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.count_read(buffer.filled().get(before..).unwrap_or_default())?;
        read
    }
}

/// Does not offer vectored writes. Without them h2 copies answers of up to 1 KiB into one buffer and
/// writes many at once; with them it would make a system call for each answer of more than 256
/// bytes (`CHAIN_THRESHOLD` in `codec/framed_write.rs` of h2 0.4).
impl<I: AsyncWrite + Unpin> AsyncWrite for Metered<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(bytes)) = wrote {
            self.frames.note_written(bytes);
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
