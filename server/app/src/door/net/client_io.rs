//! The bytes of a connection, without TLS or within it, and how an HTTP connection ends: so that the client can read its answer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::bounds::ConnectionRequests;

/// How long a client may take to send the rest of a refused body.
const REST_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of it: more than the 25 MB of GitLab's largest hook.
const REST_BYTES: usize = 32 * 1024 * 1024;

pub(super) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

#[derive(Debug)]
pub(super) struct ClientIo {
    io: Transport,
    requests: ConnectionRequests,
    /// Without vectored writes h2 copies small answers into one buffer. With them it would make a system call for each
    /// answer of more than 256 bytes (`CHAIN_THRESHOLD` in `codec/framed_write.rs` of h2 0.4).
    is_vectored: bool,
    /// Whether the client speaks HTTP/1; known from the first byte of the first answer, because HTTP/2 begins with the length of a frame.
    is_http1: Option<bool>,
    closing: Option<(Pin<Box<Sleep>>, usize)>,
}

impl ClientIo {
    pub(super) fn new(io: Transport, requests: ConnectionRequests, is_vectored: bool) -> Self {
        Self { io, requests, is_vectored, is_http1: None, closing: None }
    }

    fn socket(&self) -> &TcpStream {
        match &self.io {
            Either::Left(plain) => plain,
            Either::Right(tls) => tls.get_ref().0,
        }
    }

    /// Call it before bytes are written, with the first one.
    fn before_write(&mut self, first: Option<&u8>) -> io::Result<()> {
        self.is_http1.get_or_insert_with(|| first == Some(&b'H'));
        // Python's client repeats a call whose connection was reset, and fails with an answer that is cut short
        if self.requests.begin_waiting() { self.socket().set_zero_linger() } else { Ok(()) }
    }

    /// Reads and drops what the client sends after its answer: if bytes were not read when the connection closes, the system would reset it,
    /// and answers on their way would be lost.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (timer, dropped) = self.closing.get_or_insert_with(|| (Box::pin(sleep(REST_WITHIN)), 0));
        let mut buffer = [0; 4096];
        while *dropped < REST_BYTES {
            let mut buffer = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => *dropped += buffer.filled().len(),
                Poll::Pending if *dropped > 0 || self.requests.have_left_body() => {
                    return timer.as_mut().poll(cx);
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.requests.mark_begun();
        }
        read
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.before_write(bytes.first())?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.before_write(slices.iter().find_map(|slice| slice.first()))?;
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.is_vectored && self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            #[expect(deprecated, reason = "waits for nothing: this is the default")]
            self.socket().set_linger(None)?;
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        }
        // not over HTTP/2, where a client that breaks its rules could go on sending
        if self.is_http1 == Some(true) { self.poll_rest(cx).map(Ok) } else { Poll::Ready(Ok(())) }
    }
}
