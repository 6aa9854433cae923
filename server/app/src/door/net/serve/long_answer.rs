//! Answers that may take hours. Over HTTP/1.1 hyper keeps two buffers of 8 KiB for each connection, and room for the future of its request: 200 MiB
//! for ten thousand clients that wait. So the connection of such an answer is taken from hyper and the answer is sent here, as chunks.
//! The connection closes behind it.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    task::{Context, Poll},
    time::{Duration, UNIX_EPOCH},
};

use axum::body::Bytes;
use http_body::Body;
use hyper::{
    Response, body::Incoming, header, http::response::Parts as Head, server::conn::http1,
    service::HttpService,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_util::either::Either;

use super::{BoxError, opening::Transport};
use crate::runtime::clock::Clock;

/// Bytes of further requests on the connection that are read and dropped; a client that sends more is disconnected. The stock clients send none.
const MOST_PIPELINED_BYTES: usize = 64 * 1024;

/// Marks a long answer, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongAnswer;

/// Takes the long answer of a connection from hyper.
#[derive(Debug)]
pub(super) struct Handover<B>(Arc<HandoverState<B>>);

#[derive(Debug)]
struct HandoverState<B> {
    answer: Mutex<Option<Response<B>>>,
    has_answer: AtomicBool,
    /// Hyper has bytes of an earlier answer that the client does not take: they would be lost with it.
    is_blocked: AtomicBool,
}

impl<B> Clone for Handover<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Handover<B> {
    pub(super) fn new() -> Self {
        let (has_answer, is_blocked) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(HandoverState { answer: Mutex::new(None), has_answer, is_blocked }))
    }

    fn answer(&self) -> std::sync::MutexGuard<'_, Option<Response<B>>> {
        self.0.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ready(&self) -> bool {
        self.0.has_answer.load(Acquire) && !self.0.is_blocked.load(Acquire)
    }
}

/// The answer of `answering` for hyper. If it is a long one that can be handed over, hyper waits until its connection is taken away.
pub(super) fn pass<B, E>(
    answering: impl Future<Output = Result<Response<B>, E>>,
    handover: Option<Handover<B>>,
) -> impl Future<Output = Result<Response<B>, E>> {
    let mut answering = Some(Box::pin(answering));
    poll_fn(move |cx| {
        // a long answer is ready once, and hyper goes on polling
        let Some(unanswered) = &mut answering else { return Poll::Pending };
        let Poll::Ready(answer) = unanswered.as_mut().poll(cx) else { return Poll::Pending };
        answering = None;
        match (answer, &handover) {
            (Ok(long), Some(handover)) if long.extensions().get::<LongAnswer>().is_some() => {
                *handover.answer() = Some(long);
                handover.0.has_answer.store(true, Release);
                Poll::Pending
            }
            (answer, _) => Poll::Ready(answer),
        }
    })
}

/// A connection of hyper, until it ends or has a long answer.
pub(super) struct HandoverFuture<C, B> {
    pub(super) connection: Box<C>,
    pub(super) handover: Handover<B>,
}

impl<C: Future<Output = hyper::Result<()>> + Unpin, B> Future for HandoverFuture<C, B> {
    type Output = hyper::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match Pin::new(&mut *self.connection).poll(cx) {
            Poll::Pending if self.handover.is_ready() => Poll::Ready(Ok(())),
            polled => polled,
        }
    }
}

impl<I, B, S> HandoverFuture<http1::Connection<TokioIo<BlockedWriteIo<I, B>>, S>, B>
where
    S: HttpService<Incoming, ResBody = B, Error: Into<BoxError>>,
    I: AsyncRead + AsyncWrite + Unpin,
    B: Body<Error: Into<BoxError>> + 'static,
{
    pub(super) fn graceful_shutdown(mut self: Pin<&mut Self>) {
        Pin::new(&mut *self.connection).graceful_shutdown();
    }

    /// The connection without hyper, whether more was read than was looked at, and the long answer, if there is one and all before it has
    /// been sent.
    pub(super) fn into_parts(self) -> (I, bool, Option<Response<B>>) {
        let http1::Parts { io, read_buf, .. } = self.connection.into_parts();
        let answer = self.handover.is_ready().then(|| self.handover.answer().take()).flatten();
        (io.into_inner().io, !read_buf.is_empty(), answer)
    }
}

/// The bytes of a connection, which tell whether hyper waits for the client to take some. Hyper writes until it has nothing left, or
/// must wait.
pub(super) struct BlockedWriteIo<I, B> {
    pub(super) io: I,
    pub(super) handover: Handover<B>,
}

impl<I, B> BlockedWriteIo<I, B> {
    fn note<T>(&self, wrote: Poll<T>) -> Poll<T> {
        self.handover.0.is_blocked.store(wrote.is_pending(), Release);
        wrote
    }
}

impl<I: AsyncRead + Unpin, B> AsyncRead for BlockedWriteIo<I, B> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin, B> AsyncWrite for BlockedWriteIo<I, B> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.note(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Sends a long answer to its end, unless the client leaves. Before the end the connection is reset when it closes, also if the process
/// is killed: Python's client repeats a call whose connection was reset, and ends with an answer that is cut short. The client must take
/// the head and the end `within` a time each; what is between them is bounded by its body.
///
/// # Errors
/// The client is gone or too slow, or the body fails: then the answer has no last chunk.
pub(super) async fn send<B>(mut io: Transport<'_>, answer: Response<B>, within: Duration) -> io::Result<()>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    socket(&io).set_zero_linger()?;
    let (head, body) = answer.into_parts();
    timeout(within, write(&mut io, &head_bytes(&head))).await??;
    drop(head);
    let mut body = Box::pin(body);
    let (mut dropped, mut buffer) = (0, [0; 64]);
    loop {
        let data = tokio::select! {
            data = poll_fn(|cx| next_data(body.as_mut(), cx)) => data,
            // bytes of a next request, which this connection no longer answers
            read = io.read(&mut buffer) => {
                let bytes = read?;
                dropped += bytes;
                if bytes == 0 || dropped > MOST_PIPELINED_BYTES {
                    return Ok(());
                }
                continue;
            }
        };
        let Some(data) = data.transpose()? else { break };
        // an empty chunk would be the last one
        if !data.is_empty() {
            let length = format!("{:x}\r\n", data.len());
            write(&mut io, &[length.as_bytes(), &data, b"\r\n"].concat()).await?;
        }
    }
    drop(body);
    #[expect(deprecated, reason = "waits for nothing: this is the default")]
    socket(&io).set_linger(None)?;
    let end = async {
        write(&mut io, b"0\r\n\r\n").await?;
        io.shutdown().await
    };
    timeout(within, end).await?
}

/// Writes bytes, through TLS to the socket.
async fn write(io: &mut Transport<'_>, bytes: &[u8]) -> io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}

/// The next bytes of a body, without trailers, which are for gRPC.
fn next_data<B>(body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let data = |frame: http_body::Frame<Bytes>| frame.into_data().unwrap_or_default();
    body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map(data).map_err(io::Error::other)))
}

fn socket<'t>(io: &'t Transport<'_>) -> &'t TcpStream {
    match io {
        Either::Left(plain) => plain,
        Either::Right(tls) => tls.get_ref().0,
    }
}

fn head_bytes(head: &Head) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    let is_own =
        |name: &&header::HeaderName| ![header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name);
    for name in head.headers.keys().filter(is_own) {
        for value in head.headers.get_all(name) {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
    }
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(Clock.now_unix_ms()));
    let last = format!("date: {date}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    bytes.extend_from_slice(last.as_bytes());
    bytes
}
