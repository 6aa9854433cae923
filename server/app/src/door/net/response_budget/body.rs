//! A response body that is sent in pieces. Until its last piece it holds what its answer holds,
//! such as slots.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{AnswerRest, PIECE_BYTES, ResponseBudget};
use crate::door::net::accept::RunningRequest;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer, with the request that it answers.
#[derive(Debug)]
pub(crate) struct Throttled<B: Body, H> {
    inner: B,
    response_budget: ResponseBudget,
    /// The request that is running; `None` for requests that need no access, because these do not
    /// keep their connection.
    request: Option<RunningRequest>,
    #[expect(dead_code, reason = "held for its end")]
    held_until_sent: H,
    /// What `inner` has produced and the connection has not taken.
    polled: PolledFrame<B::Error>,
}

#[derive(Debug)]
enum PolledFrame<E> {
    Nothing,
    Frame(Result<Frame<Bytes>, E>),
    Large(AnswerRest),
    End,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin, H> Throttled<B, H> {
    /// Sends `inner`, and holds `held` until its end. Takes at once what `inner` can produce:
    /// before that, an answer of gRPC is larger in memory than on the wire, and is not counted.
    pub(crate) fn new(
        inner: B,
        (request, held): (Option<RunningRequest>, H),
        response_budget: ResponseBudget,
    ) -> Self {
        let is_small = inner.size_hint().upper().is_some_and(|bytes| bytes <= PIECE_BYTES as u64);
        let mut throttled =
            Self { inner, response_budget, request, held_until_sent: held, polled: PolledFrame::Nothing };
        if !is_small {
            // if nothing is ready now, `inner` is polled again later with a real waker
            if let Poll::Ready(frame) =
                Pin::new(&mut throttled.inner).poll_frame(&mut Context::from_waker(Waker::noop()))
            {
                throttled.polled = throttled.kept(frame);
            }
        }
        throttled
    }

    fn kept(&self, frame: Option<Result<Frame<Bytes>, B::Error>>) -> PolledFrame<B::Error> {
        match frame.map(|frame| frame.map(Frame::into_data)) {
            None => PolledFrame::End,
            Some(Err(error)) => PolledFrame::Frame(Err(error)),
            Some(Ok(Err(other))) => PolledFrame::Frame(Ok(other)),
            Some(Ok(Ok(data))) if data.len() > PIECE_BYTES => {
                PolledFrame::Large(self.response_budget.keep(data))
            }
            Some(Ok(Ok(data))) => PolledFrame::Frame(Ok(Frame::data(data))),
        }
    }

    /// The next piece of what `inner` has produced; pending if `inner` must be polled.
    fn next_piece(&mut self) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match std::mem::replace(&mut self.polled, PolledFrame::Nothing) {
            PolledFrame::Nothing => Poll::Pending,
            PolledFrame::Frame(frame) => Poll::Ready(Some(frame.map_err(Into::into))),
            PolledFrame::End => {
                self.polled = PolledFrame::End;
                Poll::Ready(None)
            }
            PolledFrame::Large(mut rest) => match rest.next() {
                Ok(None) => Poll::Pending,
                Ok(Some(piece)) => {
                    if rest.left() > 0 {
                        self.polled = PolledFrame::Large(rest);
                    }
                    Poll::Ready(Some(Ok(Frame::data(piece))))
                }
                Err(dropped) => {
                    self.polled = PolledFrame::End;
                    Poll::Ready(Some(Err(dropped.into())))
                }
            },
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Poll::Ready(piece) = self.next_piece() {
                return Poll::Ready(piece);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else { return Poll::Pending };
            self.polled = self.kept(frame);
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError> + Unpin> + Unpin, H: Unpin> Body for Throttled<B, H> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(request) = &mut self.request {
            request.piece_taken();
        }
        let polled = self.poll_piece(cx);
        if let (Poll::Ready(Some(_)), Some(request)) = (&polled, &mut self.request) {
            request.piece_given();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self.polled {
            PolledFrame::Nothing => self.inner.is_end_stream(),
            PolledFrame::End => true,
            PolledFrame::Frame(_) | PolledFrame::Large(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let polled_bytes = match &self.polled {
            PolledFrame::Frame(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            PolledFrame::Large(rest) => rest.left(),
            _ => 0,
        } as u64;
        let mut hint = self.inner.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(polled_bytes));
        }
        hint.set_lower(hint.lower().saturating_add(polled_bytes));
        hint
    }
}
