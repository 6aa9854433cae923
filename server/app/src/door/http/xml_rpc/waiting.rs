//! The answer of a call that waits, for hours if it must: no thread waits for it. Its head goes out at once. A line feed every half minute
//! keeps the connection, and finds clients that are gone: between the declaration and the first element XML may have as many as it likes.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Bytes;
use http_body::Frame;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::DECLARATION;

/// Interval between two line feeds: short enough that proxies keep the connection, and that a client that has disconnected is noticed.
const LINE_FEED_EVERY: Duration = Duration::from_secs(30);

/// The body of the answer: line feeds while the call waits, then the answer.
pub(super) struct PendingAnswer {
    /// The future that computes the answer; `None` once the answer was sent.
    answer: Option<Pin<Box<dyn Future<Output = String> + Send>>>,
    line_feeds: Interval,
    is_begun: bool,
}

impl PendingAnswer {
    pub(super) fn new(answer: impl Future<Output = String> + Send + 'static) -> Self {
        let mut line_feeds = interval(LINE_FEED_EVERY);
        line_feeds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { answer: Some(Box::pin(answer)), line_feeds, is_begun: false }
    }
}

impl fmt::Debug for PendingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAnswer").field("is_begun", &self.is_begun).finish_non_exhaustive()
    }
}

impl http_body::Body for PendingAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
        let last = match answer.as_mut().poll(cx) {
            Poll::Ready(last) => {
                self.answer = None;
                Some(last)
            }
            Poll::Pending if self.line_feeds.poll_tick(cx).is_ready() => None,
            Poll::Pending => return Poll::Pending,
        };
        let first = if std::mem::replace(&mut self.is_begun, true) { "" } else { DECLARATION };
        let piece = first.to_owned() + last.as_deref().unwrap_or("\n");
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_none()
    }
}
