//! What a client still sends of a request that is answered already, as one that is refused for its size: it is read and thrown away, within
//! bounds, so that the client can read why. A connection that is closed while bytes of the client wait on it is reset, and the answer is
//! lost with it.
//!
//! Only HTTP/1 needs this: HTTP/2 ends one request of a connection without the others.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::{sync::mpsc, time::timeout};

/// Most bytes of one request that are thrown away: more than the 25 MB of GitLab's largest hook.
const BYTES: usize = 32 * 1024 * 1024;
/// How long a client may take to send them.
const WITHIN: Duration = Duration::from_secs(10);

/// Where bodies go that no handler has read to their end.
#[derive(Debug, Clone)]
pub(super) struct Leftovers {
    bodies: mpsc::Sender<Incoming>,
    cut_short: Arc<AtomicBool>,
}

/// Reads them.
#[derive(Debug)]
pub(super) struct Drain {
    bodies: mpsc::Receiver<Incoming>,
    cut_short: Arc<AtomicBool>,
}

impl Leftovers {
    /// Those of one connection, and their reader, which the caller must run.
    pub(super) fn new() -> (Self, Drain) {
        // a connection has one request at a time
        let (sender, bodies) = mpsc::channel(1);
        let cut_short = Arc::<AtomicBool>::default();
        (Self { bodies: sender, cut_short: Arc::clone(&cut_short) }, Drain { bodies, cut_short })
    }

    /// The body of a request, which comes back here if it is dropped before its end and is of HTTP/1.
    pub(super) fn lend(&self, body: Incoming, is_http1: bool) -> ClientBody {
        ClientBody { body: Some(body), back: is_http1.then(|| self.clone()) }
    }

    /// Whether a client may still be sending what is not read any more.
    pub(super) fn is_cut_short(&self) -> bool {
        self.cut_short.load(Relaxed)
    }
}

impl Drain {
    /// Throws bodies away, one after another, for as long as it is run.
    pub(super) async fn run(mut self) {
        while let Some(body) = self.bodies.recv().await {
            // true until it came to its end: this may be dropped in the middle
            self.cut_short.store(true, Relaxed);
            if let Ok(true) = timeout(WITHIN, is_read_to_its_end(body)).await {
                self.cut_short.store(false, Relaxed);
            }
        }
    }
}

/// Reads a body to its end, or to the bound.
async fn is_read_to_its_end(mut body: Incoming) -> bool {
    let mut left = BYTES;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return false };
        left = rest;
    }
    true
}

/// What a client sends of one request, while a handler has it.
#[derive(Debug)]
pub(crate) struct ClientBody {
    body: Option<Incoming>,
    /// `None` where nothing has to be read to its end.
    back: Option<Leftovers>,
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let (Some(body), Some(back)) = (self.body.take(), &self.back) else { return };
        // the reader is gone when the connection ends
        if !body.is_end_stream() && back.bodies.try_send(body).is_err() {
            back.cut_short.store(true, Relaxed);
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
