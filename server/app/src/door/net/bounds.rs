//! How long a connection is kept, which the libraries leave open: time to its first request, to the first admitted one, without a request, and
//! without progress of an answer. Received bytes keep no connection, because a client may send pings for ever.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::places::{Connection, Place};
use crate::access::identity::UsageSlot;

/// Resolution of timers, added to waits: a timer that fires a moment early would be set again and again.
const TIMER_TICK: Duration = Duration::from_millis(1);

/// Limits of a listener: its connections, and how long clients may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most connections at once.
    pub(crate) connections: usize,
    /// Time from the beginning of a connection to its first request.
    pub(crate) first: Duration,
    /// Time from the beginning of a connection to its first admitted request.
    pub(crate) admitted: Duration,
    /// Time from the head of a request to the end of its body.
    pub(crate) body: Duration,
    /// Time without a request, or without progress of an answer.
    pub(crate) idle: Duration,
}

/// The requests of one connection. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRequests(Arc<RequestState>);

#[derive(Debug)]
struct RequestState {
    connection: Arc<Connection>,
    began: Instant,
    uses: Uses,
}

#[derive(Debug, Default)]
struct Uses {
    /// Running requests that wait for the client to read a piece of their answer.
    unread: AtomicUsize,
    /// Time from the beginning until a request last ended, or a piece of an answer was last sent, nanoseconds.
    last: AtomicU64,
    /// Whether the client has sent a byte, apart from TLS.
    has_begun: AtomicBool,
    /// Whether the shutdown of the connection has begun.
    is_closing: AtomicBool,
    was_asked: AtomicBool,
    was_admitted: AtomicBool,
    /// See [`ConnectionRequests::have_left_body`].
    left_body: AtomicBool,
    /// See [`RunningRequest::mark_waiting`].
    waits: AtomicBool,
}

/// A running request; it ends on drop.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    requests: ConnectionRequests,
    is_unread: bool,
    /// Whether it came after the shutdown began, from a client that goes on: it keeps no connection.
    is_late: bool,
}

impl ConnectionRequests {
    pub(super) fn new(place: &Place) -> Self {
        let connection = Arc::clone(&place.connection);
        Self(Arc::new(RequestState { connection, began: Instant::now(), uses: Uses::default() }))
    }

    /// Counts a request until the returned value is dropped.
    pub(crate) fn begin(&self) -> RunningRequest {
        let is_late = self.0.uses.is_closing.load(Relaxed);
        self.0.connection.running.fetch_add((!is_late).into(), Relaxed);
        RunningRequest { requests: self.clone(), is_unread: false, is_late }
    }

    /// Call it when a request was admitted: from then on the connection stays for as long as it is used. A full listener keeps it if its
    /// caller has a slot for it: `own`.
    pub(crate) fn mark_admitted(&self, own: impl FnOnce() -> Option<UsageSlot>) {
        if !self.0.uses.was_admitted.load(Relaxed) {
            self.0.connection.admit(own);
            self.0.uses.was_admitted.store(true, Relaxed);
        }
    }

    /// Call it when the client has sent bytes.
    pub(super) fn mark_begun(&self) {
        self.0.uses.has_begun.store(true, Relaxed);
    }

    /// Whether the client has sent a byte: browsers and load balancers keep connections on which they send none.
    pub(super) fn have_begun(&self) -> bool {
        self.0.uses.has_begun.load(Relaxed)
    }

    /// Call it when the shutdown of the connection begins: over HTTP/2 a client can go on with requests.
    pub(super) fn mark_closing(&self) {
        self.0.uses.is_closing.store(true, Relaxed);
    }

    /// Call it when a request has come, whether it will be admitted or not.
    pub(super) fn mark_asked(&self) {
        self.0.uses.was_asked.store(true, Relaxed);
    }

    /// Whether there was a request, admitted or not.
    pub(super) fn were_asked(&self) -> bool {
        self.0.uses.was_asked.load(Relaxed)
    }

    /// Call it when a handler has not read a body to its end.
    pub(super) fn mark_left_body(&self) {
        self.0.uses.left_body.store(true, Relaxed);
    }

    /// Whether the client may still be sending a body that no handler reads.
    pub(super) fn have_left_body(&self) -> bool {
        self.0.uses.left_body.load(Relaxed)
    }

    /// Whether an answer has begun that waits; true once for each.
    pub(super) fn begin_waiting(&self) -> bool {
        self.0.uses.waits.load(Relaxed) && self.0.uses.waits.swap(false, Relaxed)
    }

    /// Whether requests are running that all wait for the client to read their answers.
    pub(super) fn are_unread(&self) -> bool {
        let running = self.0.connection.running.load(Acquire);
        running > 0 && running <= self.0.uses.unread.load(Relaxed)
    }

    /// Completes when the connection is closed for another one.
    pub(super) async fn replaced(&self) {
        self.0.connection.replaced.notified().await;
    }

    /// Completes when the connection was not used for too long.
    pub(super) async fn unused(&self, bounds: &Bounds) {
        while let Some(left) = self.time_left(bounds) {
            sleep(left + TIMER_TICK).await;
        }
    }

    /// Completes when, for `bound` to twice as long, no request ran but those whose answers are not read.
    pub(super) async fn stalled(&self, bound: Duration) {
        loop {
            sleep(bound).await;
            if !self.are_served() && self.since_use() >= bound {
                return;
            }
        }
    }

    fn are_served(&self) -> bool {
        // read first: it shows what a request wrote before it ended
        self.0.connection.running.load(Acquire) > self.0.uses.unread.load(Relaxed)
    }

    fn since_use(&self) -> Duration {
        self.0.began.elapsed().saturating_sub(Duration::from_nanos(self.0.uses.last.load(Relaxed)))
    }

    fn time_left(&self, bounds: &Bounds) -> Option<Duration> {
        let (bound, passed) = match (self.0.uses.was_admitted.load(Relaxed), self.were_asked()) {
            (true, _) if self.are_served() => (bounds.idle, Duration::ZERO),
            (true, _) => (bounds.idle, self.since_use()),
            (false, true) => (bounds.admitted, self.0.began.elapsed()),
            (false, false) => (bounds.first, self.0.began.elapsed()),
        };
        bound.checked_sub(passed).filter(|left| !left.is_zero())
    }
}

impl RunningRequest {
    /// Call it when the answer has begun and waits: its connection is reset if the server dies before the end.
    pub(crate) fn mark_waiting(&self) {
        self.requests.0.uses.waits.store(true, Relaxed);
    }

    fn note_use(&self) {
        let now = u64::try_from(self.requests.0.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.requests.0.uses.last.fetch_max(now, Relaxed);
    }

    /// A piece of the answer was handed to the connection: until the client has read it, this request does not keep the connection.
    pub(super) fn give_piece(&mut self) {
        if self.is_late {
            return;
        }
        self.note_use();
        if !std::mem::replace(&mut self.is_unread, true) {
            self.requests.0.uses.unread.fetch_add(1, Relaxed);
        }
    }

    /// The client has read what was handed to the connection.
    pub(super) fn take_piece(&mut self) {
        if std::mem::take(&mut self.is_unread) {
            self.requests.0.uses.unread.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if self.is_late {
            return;
        }
        self.note_use();
        self.take_piece();
        self.requests.0.connection.running.fetch_sub(1, Release);
    }
}
