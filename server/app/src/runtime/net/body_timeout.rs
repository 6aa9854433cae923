//! The message of a call, which has to come whole within a time: a call that has begun and not asked yet holds one of its caller's places.
//! What a client streams has no such time, and is bounded as a stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Status, codegen::Bytes};

/// From the head of a call to the end of its message. The largest has 4 MiB; most come with the head.
const WITHIN: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a client sends of one call.
#[derive(Debug)]
pub(super) struct BodyTimeout<B> {
    inner: B,
    /// `None` for a stream.
    until: Option<Instant>,
    /// Made when something has to be waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> BodyTimeout<B> {
    /// Of a call of this rpc that begins now.
    pub(super) fn new(inner: B, path: &str) -> Self {
        let until = (!is_streamed(path)).then(|| Instant::now() + WITHIN);
        Self { inner, until, late: None }
    }
}

/// Whether the client of this rpc sends as long as it likes.
fn is_streamed(path: &str) -> bool {
    matches!(path, "/plimsoll.v1.Collector/Stream" | "/plimsoll.v1.Predictor/PredictBatch")
        || path.starts_with("/grpc.reflection.")
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for BodyTimeout<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(until) = self.until else { return Poll::Pending };
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(until)));
        late.as_mut().poll(cx).map(|()| {
            let text = format!("the message did not come whole within {} s", WITHIN.as_secs());
            Some(Err(Status::deadline_exceeded(text).into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio_stream::{StreamExt as _, once, pending};

    use super::*;

    /// The first bytes of a message, and no more.
    fn half() -> impl Body<Data = Bytes, Error = BoxError> + Unpin {
        let begin = once(Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"\0"))));
        StreamBody::new(begin.chain(pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_come_whole_ends_its_call_and_a_stream_may_take_its_time() {
        let start = Instant::now();
        let late = BodyTimeout::new(half(), "/plimsoll.v1.Predictor/Predict").collect().await.err().unwrap();
        assert_eq!(late.downcast::<Status>().unwrap().code(), tonic::Code::DeadlineExceeded);
        assert_eq!(start.elapsed(), WITHIN);
        for path in ["/plimsoll.v1.Collector/Stream", "/plimsoll.v1.Predictor/PredictBatch"] {
            let streaming = BodyTimeout::new(half(), path).collect();
            assert!(tokio::time::timeout(100 * WITHIN, streaming).await.is_err(), "{path}");
        }
    }
}
