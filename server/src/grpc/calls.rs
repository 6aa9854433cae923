//! Every call that runs, counted; and the end of those that would wait for ever when the server stops.
//!
//! A call begins when its request is routed and ends when the last byte of its answer is handed to the connection. A stream
//! without an end of its own (health, reflection, a batch whose client sends nothing) would keep a server from stopping: after
//! [`Calls::cut`], an answer that has nothing to say ends with UNAVAILABLE. What is ready is still sent.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http_body::{Frame, SizeHint};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, http},
};

use super::status;
use crate::{identity::Place, incoming::Running as Request, ingest::Refusal};

/// What is held until the last byte of an answer: its place among the calls, among the requests of its connection, and among the calls
/// of its caller.
pub(super) type Held = (TaskTrackerToken, Option<Request>, Option<Place>);

/// The calls of both listeners. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Running>);

#[derive(Debug, Default)]
struct Running {
    calls: TaskTracker,
    cut: CancellationToken,
}

impl Calls {
    /// Counts a call for as long as the result lives.
    pub(crate) fn begin(&self) -> TaskTrackerToken {
        self.0.calls.token()
    }

    /// Ends the answers that wait for something to say, now and from now on.
    pub(crate) fn cut(&self) {
        self.0.cut.cancel();
        self.0.calls.close();
    }

    /// Waits until no call runs. To be called after [`Self::cut`].
    pub(crate) async fn ended(&self) {
        self.0.calls.wait().await;
    }

    /// The answer to `call`, which ends with its last byte.
    pub(super) fn answer(&self, call: Held, inner: Body) -> Body {
        Body::new(Answer { inner, call, calls: self.clone(), cut: None, ended: false })
    }

    /// How many calls run.
    pub(crate) fn running(&self) -> usize {
        self.0.calls.len()
    }
}

/// The answer to a call while it is sent.
struct Answer {
    inner: Body,
    #[expect(dead_code, reason = "held for its end")]
    call: Held,
    calls: Calls,
    /// Made when the answer first has nothing to say: most never do, and a token's lock is shared by all calls.
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    ended: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Self { calls, cut, .. } = &mut *self;
        let cut = cut.get_or_insert_with(|| Box::pin(calls.0.cut.clone().cancelled_owned()));
        if cut.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        status::of_refusal(&Refusal::Stopping).add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;

    /// Status of the call, once its answer `body` has ended.
    async fn end_of(calls: &Calls, body: Body) -> Option<String> {
        let mut body = std::pin::pin!(calls.answer((calls.begin(), None, None), body));
        let mut status = None;
        while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            if let Ok(trailers) = frame.unwrap().into_trailers() {
                status = trailers.get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
            }
        }
        status
    }

    /// An answer that never says anything.
    struct Silent;

    impl http_body::Body for Silent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_silent_answer_ends_with_unavailable_when_calls_are_cut() {
        let calls = Calls::default();
        let cutting = async {
            assert_eq!(calls.running(), 1);
            calls.cut();
        };
        let (status, ()) = tokio::join!(end_of(&calls, Body::new(Silent)), cutting);
        assert_eq!(status.as_deref(), Some("14"));
        calls.ended().await;
    }

    #[tokio::test]
    async fn an_answer_that_is_ready_is_not_cut() {
        let calls = Calls::default();
        calls.cut();
        assert_eq!(end_of(&calls, Body::empty()).await, None);
        assert_eq!(calls.running(), 0);
    }
}
