//! The answer to a call while it is sent. A stream that does not end by itself (health, reflection,
//! a batch whose client sends nothing) would keep a server from stopping. So after [`Calls::end_idle`]
//! an answer that has nothing to send ends with `UNAVAILABLE`; what is ready is still sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::{sync::WaitForCancellationFutureOwned, task::task_tracker::TaskTrackerToken};
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, http},
};

use super::status;
use crate::{
    access::identity::UsageSlot,
    door::{
        calls::Calls,
        net::{RunningRequest as Request, SentBody},
    },
    ingest::Refusal,
};

/// What a call holds until the client has taken its answer: a count among the server's calls, one
/// among the requests of its connection, a slot of its caller, and one of reflection.
pub(super) type HeldSlots = (TaskTrackerToken, Option<Request>, OwnSlots);

/// A slot of the caller, and one of reflection.
type OwnSlots = (Option<UsageSlot>, Option<OwnedSemaphorePermit>);

/// Wraps the body of an answer so that the call ends with the last byte.
pub(super) fn call_body(calls: &Calls, (call, request, own): HeldSlots, inner: Body) -> Body {
    let inner = SentBody::new(inner, request, (call, own));
    Body::new(CallBody { inner, calls: calls.clone(), idle_ended: None, has_ended: false })
}

/// The answer to a call while it is sent.
struct CallBody {
    inner: SentBody<Body, (TaskTrackerToken, OwnSlots)>,
    calls: Calls,
    /// Completes at [`Calls::end_idle`]. Created when the answer first has nothing to send: most answers
    /// never wait, and all calls share the lock that creating it takes.
    idle_ended: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    has_ended: bool,
}

impl http_body::Body for CallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(mut frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            if let Some(Ok(last)) = &mut frame
                && let Some(trailers) = last.trailers_mut()
            {
                status::blame_sender(trailers);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Status::from_error)));
        }
        let Self { calls, idle_ended, .. } = &mut *self;
        let idle_ended = idle_ended.get_or_insert_with(|| Box::pin(calls.idle_ended()));
        if idle_ended.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.has_ended = true;
        let mut trailers = http::HeaderMap::new();
        Status::from(Refusal::Stopping).add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.inner.is_end_stream()
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
        let mut body = std::pin::pin!(call_body(calls, (calls.begin(), None, (None, None)), body));
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
    async fn an_idle_answer_ends_as_unavailable() {
        let calls = Calls::default();
        let cutting = async {
            assert_eq!(calls.running(), 1);
            calls.end_idle();
        };
        let (status, ()) = tokio::join!(end_of(&calls, Body::new(Silent)), cutting);
        assert_eq!(status.as_deref(), Some("14"));
        calls.ended().await;
    }

    #[tokio::test]
    async fn a_call_runs_until_its_final_frame() {
        let (calls, bytes) = (Calls::default(), 100_000);
        let body = Body::new("x".repeat(bytes));
        let mut body = std::pin::pin!(call_body(&calls, (calls.begin(), None, (None, None)), body));
        let (mut came, mut pieces) = (0, 0);
        while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            came += frame.unwrap().into_data().unwrap().len();
            pieces += 1;
            assert_eq!(body.is_end_stream(), came == bytes, "the library lets go of it at its end");
        }
        assert_eq!((came, pieces, calls.running()), (bytes, 7, 1));
    }

    #[tokio::test]
    async fn an_answer_that_is_ready_is_not_cut() {
        let calls = Calls::default();
        calls.end_idle();
        assert_eq!(end_of(&calls, Body::empty()).await, None);
        assert_eq!(calls.running(), 0);
    }
}
