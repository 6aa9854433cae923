//! A connection that is cut off when its client floods it with frames that carry nothing.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::Frames;

/// A connection whose frames are counted. With TLS, that is inside of it.
#[derive(Debug)]
pub(crate) struct Metered<I> {
    io: I,
    frames: Frames,
    peer: SocketAddr,
    /// Counts those that are cut off.
    cut: Counter,
}

impl<I> Metered<I> {
    pub(crate) fn new(io: I, peer: SocketAddr, cut: Counter) -> Self {
        Self { io, frames: Frames::new(Instant::now()), peer, cut }
    }

    pub(crate) fn inner(&self) -> &I {
        &self.io
    }

    fn wrote(&mut self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = wrote {
            self.frames.wrote(bytes);
        }
        wrote
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
        let came = buffer.filled().get(before..).unwrap_or_default();
        if let Err(flood) = self.frames.came(came) {
            self.cut.inc();
            tracing::info!(peer = %self.peer, error = %flood, "cut a connection off");
            return Poll::Ready(Err(io::Error::other(flood)));
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Metered<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.wrote(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
