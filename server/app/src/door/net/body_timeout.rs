//! A request body with a time limit: until the body has arrived, its request holds a slot of its
//! caller.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::door::net::accept::ConnectionRequests;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that ends with an error when its time limit is reached.
#[derive(Debug)]
pub(crate) struct BodyTimeout<B: Body> {
    inner: B,
    /// The requests of the connection, if it matters whether the body is read to its end.
    requests: Option<ConnectionRequests>,
    time_limit: Duration,
    deadline: Instant,
    /// Makes the error for a body that was late.
    late: fn(Duration) -> BoxError,
    /// Created when the body has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the last frame was read. A body in chunks does not tell before that it has ended.
    was_read_whole: bool,
}

impl<B: Body> BodyTimeout<B> {
    /// Starts the time limit for a body.
    pub(crate) fn new(inner: B, within: Duration, late: fn(Duration) -> BoxError) -> Self {
        Self {
            inner,
            requests: None,
            time_limit: within,
            deadline: Instant::now() + within,
            late,
            timer: None,
            was_read_whole: false,
        }
    }

    /// Sets the requests of the connection. They are notified if the body is not read to its end.
    pub(crate) fn watched_by(mut self, requests: Option<ConnectionRequests>) -> Self {
        self.requests = requests;
        self
    }
}

impl<B: Body> Drop for BodyTimeout<B> {
    fn drop(&mut self) {
        let is_whole = self.was_read_whole || self.inner.is_end_stream();
        if let Some(requests) = self.requests.as_ref().filter(|_| !is_whole) {
            requests.body_left();
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for BodyTimeout<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.was_read_whole = frame.is_none();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Self { deadline: until, time_limit: within, late, .. } = *self;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        timer.as_mut().poll(cx).map(|()| Some(Err(late(within))))
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

    fn of_one_chunk(requests: &ConnectionRequests) -> BodyTimeout<impl Body<Data = Bytes, Error = BoxError>> {
        let chunk = once(Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"chunk"))));
        let body = BodyTimeout::new(StreamBody::new(chunk), Duration::from_secs(10), |_| "late".into());
        body.watched_by(Some(requests.clone()))
    }

    #[tokio::test]
    async fn only_a_body_that_was_not_read_to_its_end_counts_as_left() {
        let requests = ConnectionRequests::of_one_client();
        of_one_chunk(&requests).collect().await.unwrap();
        assert!(!requests.has_left_body());
        drop(of_one_chunk(&requests));
        assert!(requests.has_left_body());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_whole_ends_with_an_error() {
        let begin = once(Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"half"))));
        let half = StreamBody::new(begin.chain(pending()));
        let (start, within) = (Instant::now(), Duration::from_secs(10));
        let body = BodyTimeout::new(half, within, |within| format!("{} s", within.as_secs()).into());
        assert_eq!(body.collect().await.err().unwrap().to_string(), "10 s");
        assert_eq!(start.elapsed(), within);
    }
}
