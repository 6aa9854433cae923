//! Bodies with what the libraries lack: the time of a whole request body, and whether a client reads its answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    BoxError,
    bounds::{ConnectionRequests, RunningRequest},
};

/// Bytes of an answer that are handed to a connection at once: the next ones follow when the client has read some.
pub(super) const PIECE_BYTES: usize = 16 * 1024;
/// Pieces of an answer that wait in a connection, at most.
pub(super) const WAITING_PIECES: usize = 4;
/// Pieces of an answer that a connection may hold when the body has ended: those that wait, one that is being written, and the last one.
pub(super) const LAST_PIECES: usize = WAITING_PIECES + 2;

/// The body of a request, which ends with an error when it has not come whole in time.
#[derive(Debug)]
pub(crate) struct BodyDeadline<B: Body> {
    inner: B,
    /// The requests of the connection, for which it matters whether the body is read to its end.
    requests: Option<ConnectionRequests>,
    within: Duration,
    deadline: Instant,
    /// Makes the error of a body that is late.
    late: fn(Duration) -> BoxError,
    /// Created when the body has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
    was_read: bool,
}

impl<B: Body> BodyDeadline<B> {
    pub(crate) fn new(
        inner: B,
        within: Duration,
        late: fn(Duration) -> BoxError,
        requests: Option<ConnectionRequests>,
    ) -> Self {
        let deadline = Instant::now() + within;
        Self { inner, requests, within, deadline, late, timer: None, was_read: false }
    }
}

impl<B: Body> Drop for BodyDeadline<B> {
    fn drop(&mut self) {
        if let Some(requests) =
            self.requests.as_ref().filter(|_| !self.was_read && !self.inner.is_end_stream())
        {
            requests.mark_left_body();
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for BodyDeadline<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.was_read = frame.is_none();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Self { deadline, within, late, .. } = *self;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(cx).map(|()| Some(Err(late(within))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer, in pieces. Until the last one it keeps what its request holds.
#[derive(Debug)]
pub(crate) struct SentBody<B, H> {
    inner: B,
    /// What is left of a large frame.
    rest: Bytes,
    request: Option<RunningRequest>,
    #[expect(dead_code, reason = "held for its end")]
    held: H,
}

impl<B, H> SentBody<B, H> {
    /// `request`: `None` if the answer does not keep the connection.
    pub(crate) fn new(inner: B, request: Option<RunningRequest>, held: H) -> Self {
        Self { inner, rest: Bytes::new(), request, held }
    }

    /// The frame, or its first piece.
    fn piece(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let data = frame.into_data().map(|mut data| {
            self.rest = data.split_off(data.len().min(PIECE_BYTES));
            if self.rest.len().div_ceil(PIECE_BYTES) == LAST_PIECES {
                // these may outlast the request, and must not keep the whole frame in memory
                self.rest = Bytes::copy_from_slice(&self.rest);
            }
            Frame::data(data)
        });
        data.unwrap_or_else(|other| other)
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin, H: Unpin> Body for SentBody<B, H> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(request) = &mut self.request {
            request.take_piece();
        }
        let frame = match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => ready!(Pin::new(&mut self.inner).poll_frame(cx)),
            rest => Some(Ok(Frame::data(rest))),
        };
        if let (Some(_), Some(request)) = (&frame, &mut self.request) {
            request.give_piece();
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| self.piece(frame)).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // asked before the first piece
        if self.rest.is_empty() { self.inner.size_hint() } else { SizeHint::default() }
    }
}
