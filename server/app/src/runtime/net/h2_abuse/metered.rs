//! A connection that is cut off when its client floods it with frames that carry nothing, or does not begin to speak HTTP/2 where nothing else is
//! spoken.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::Frames;
use crate::runtime::net::accept::Requests;

/// A connection whose frames are counted. With TLS, that is inside of it.
#[derive(Debug)]
pub(crate) struct Metered<I> {
    io: I,
    frames: Frames,
    peer: SocketAddr,
    requests: Requests,
    /// Counts those that are cut off.
    cut: Counter,
    /// When the preface has to be there; `None` once it is, and where other protocols are spoken.
    preface: Option<Pin<Box<Sleep>>>,
}

impl<I> Metered<I> {
    /// Where `preface` is set, the client has so long to say that it speaks HTTP/2.
    pub(crate) fn new(
        io: I,
        (peer, requests): (SocketAddr, Requests),
        cut: Counter,
        preface: Option<Duration>,
    ) -> Self {
        let preface = preface.map(|within| Box::pin(sleep(within)));
        Self { io, frames: Frames::new(Instant::now()), peer, requests, cut, preface }
    }

    /// An error once the client has not begun for too long.
    fn late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.frames.is_in_preface() {
            self.preface = None;
        }
        let Some(preface) = &mut self.preface else { return Poll::Pending };
        preface.as_mut().poll(cx).map(|()| io::Error::new(io::ErrorKind::TimedOut, "no preface of HTTP/2"))
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
        if self.requests.was_let_in() {
            self.frames.let_in();
        }
        if let Err(flood) = self.frames.came(came) {
            self.cut.inc();
            tracing::info!(peer = %self.peer, error = %flood, "cut a connection off");
            return Poll::Ready(Err(io::Error::other(flood)));
        }
        if read.is_pending() { self.late(cx).map(Err) } else { read }
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
