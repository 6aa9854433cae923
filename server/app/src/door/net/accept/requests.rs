//! The requests of one connection. They decide how long the connection is kept: a connection
//! without requests is closed, so that others get its slot. Received bytes do not keep a
//! connection, because a client may send pings for ever. Nor does a request whose answer the client
//! does not read: after the first piece of the answer, only reading the next piece keeps the
//! connection.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::{places::ConnectionSlot, serving::Serving};
use crate::access::identity::UsageSlot;

/// Resolution of timers. Added to waits, because a timer that fires a moment early would otherwise
/// be set again and again.
const TIMER_TICK: Duration = Duration::from_millis(1);

/// The requests of one connection. Cheap to clone; clones share the state. Only the first admitted
/// request takes a lock.
#[derive(Clone)]
pub(crate) struct ConnectionRequests(Arc<RequestState>);

struct RequestState {
    /// The connection's slot. Given back when the connection ends, even if clones still exist.
    place: Mutex<Option<ConnectionSlot>>,
    serving: Serving,
    /// Whether there was a request.
    was_asked: AtomicBool,
    /// Whether a request was admitted.
    has_admitted: AtomicBool,
    /// See [`Requests::has_left_body`].
    left_body: AtomicBool,
    /// Running requests that wait for the client to read a piece of their answer.
    unread: AtomicUsize,
    /// When the connection began.
    began: Instant,
    /// When the connection was last used: the time from its beginning until a request last ended or
    /// a piece of an answer was last sent, nanoseconds. It counts only after a request was
    /// admitted.
    last_ended: AtomicU64,
}

/// A running request; it ends on drop.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    requests: ConnectionRequests,
    /// Whether the request waits for the client to read a piece of its answer.
    unread: bool,
}

impl ConnectionRequests {
    pub(super) fn new() -> Self {
        Self(Arc::new(RequestState {
            place: Mutex::default(),
            serving: Serving::new(),
            was_asked: AtomicBool::new(false),
            has_admitted: AtomicBool::new(false),
            left_body: AtomicBool::new(false),
            unread: AtomicUsize::new(0),
            began: Instant::now(),
            last_ended: AtomicU64::new(0),
        }))
    }

    /// Gives the connection its slot.
    pub(super) fn hold(&self, slot: ConnectionSlot) {
        *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    /// Notes the task that serves the connection from now on.
    pub(crate) fn served_by(&self, task: AbortHandle) {
        self.0.serving.add_task(task);
    }

    /// What its listener knows of the connection.
    pub(super) fn serving(&self) -> Serving {
        self.0.serving.clone()
    }

    /// Counts a request until the returned value is dropped. That alone does not keep the
    /// connection: see [`Self::mark_admitted`].
    pub(crate) fn begin(&self) -> RunningRequest {
        self.0.serving.begin_request();
        self.0.was_asked.store(true, Relaxed);
        RunningRequest { requests: self.clone(), unread: false }
    }

    /// Call it when a request was admitted: from then on the connection stays open for as long as it is used. When the listener is full, it
    /// keeps its slot if there are some to keep, and if its caller has one: `own`.
    pub(crate) fn mark_admitted(&self, own: impl FnOnce() -> Option<UsageSlot>) {
        if self.0.has_admitted.load(Relaxed) {
            return;
        }
        if let Some(place) = &mut *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) {
            place.mark_used(own);
        }
        self.0.has_admitted.store(true, Relaxed);
    }

    /// Whether a request was admitted.
    pub(crate) fn was_admitted(&self) -> bool {
        self.0.has_admitted.load(Relaxed)
    }

    /// Whether there was a request, admitted or not.
    pub(crate) fn asked(&self) -> bool {
        self.0.was_asked.load(Relaxed)
    }

    /// Whether requests are running that all wait for the client to read their answers.
    pub(crate) fn are_unread(&self) -> bool {
        let running = self.0.serving.running();
        running > 0 && running <= self.0.unread.load(Relaxed)
    }

    /// Call it when a handler has not read a request's body to its end.
    pub(crate) fn body_left(&self) {
        self.0.left_body.store(true, Relaxed);
    }

    /// Whether the client may still be sending a body that no handler reads.
    pub(crate) fn has_left_body(&self) -> bool {
        self.0.left_body.load(Relaxed)
    }

    /// Completes when, for `bound` to twice as long, the only running requests were those that wait
    /// for the client, and it has read nothing.
    pub(crate) async fn until_stalled(&self, bound: Duration) {
        loop {
            sleep(bound).await;
            let runs = self.0.serving.running() > 0 && !self.are_unread();
            if !runs && self.time_until_unused(bound, bound).is_none() {
                return;
            }
        }
    }

    /// Completes until no request ran for too long: see [`Self::time_until_unused`]. Uses a timer, so that
    /// requests need not look at the clock.
    pub(crate) async fn until_unused(&self, first: Duration, later: Duration) {
        while let Some(left) = self.time_until_unused(first, later) {
            sleep(left).await;
        }
    }

    /// Least time until the connection counts as unused; `None` if it does. It may be without a
    /// running request for `first` from its beginning until a request is admitted, and afterwards
    /// for `later`. Requests that are not admitted do not extend the time.
    pub(crate) fn time_until_unused(&self, first: Duration, later: Duration) -> Option<Duration> {
        // read first: it shows what a request wrote before it ended
        let runs = self.0.serving.running() > self.0.unread.load(Relaxed);
        let let_in = self.0.has_admitted.load(Relaxed);
        let bound = if let_in { later } else { first };
        let ended = Duration::from_nanos(self.0.last_ended.load(Relaxed));
        let passed =
            if runs && let_in { Duration::ZERO } else { self.0.began.elapsed().saturating_sub(ended) };
        bound.checked_sub(passed).filter(|left| !left.is_zero()).map(|left| left + TIMER_TICK)
    }

    /// Notes the present time as the last use of the connection, if a request was admitted.
    fn note_activity(&self) {
        if self.0.has_admitted.load(Relaxed) {
            let now = u64::try_from(self.0.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.0.last_ended.fetch_max(now, Relaxed);
        }
    }

    pub(super) fn end_request(&self) {
        drop(self.0.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl RunningRequest {
    /// Call it when a piece of the answer was handed to the connection: until the client has read
    /// it, this request does not keep the connection.
    pub(crate) fn piece_given(&mut self) {
        self.requests.note_activity();
        if !std::mem::replace(&mut self.unread, true) {
            self.requests.0.unread.fetch_add(1, Relaxed);
        }
    }

    /// Call it when the client has read what was handed to the connection.
    pub(crate) fn piece_taken(&mut self) {
        if std::mem::take(&mut self.unread) {
            self.requests.0.unread.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.requests.note_activity();
        self.piece_taken();
        self.requests.0.serving.end_request();
    }
}

impl fmt::Debug for ConnectionRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

#[cfg(test)]
impl ConnectionRequests {
    /// The requests of the only connection of a listener.
    pub(crate) fn of_one_client() -> Self {
        let (requests, slots) = (Self::new(), super::places::ConnectionSlots::of(1));
        requests.hold(slots.take_slot(std::net::Ipv4Addr::LOCALHOST.into(), requests.serving()).0);
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(30);
    const LATER: Duration = Duration::from_mins(2);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_unused_a_while_after_its_last_request_and_never_while_one_runs() {
        let requests = ConnectionRequests::of_one_client();
        let start = Instant::now();
        requests.until_unused(FIRST, LATER).await;
        assert_eq!((start.elapsed().as_secs(), requests.asked()), (30, false));
        let running = requests.begin();
        requests.mark_admitted(|| None);
        let mut unused = std::pin::pin!(requests.until_unused(FIRST, LATER));
        tokio::select! {
            () = unused.as_mut() => panic!("a request runs"),
            () = sleep(LATER * 10) => {}
        }
        drop(running);
        let last = Instant::now();
        unused.await;
        assert_eq!((last.elapsed().as_secs(), requests.asked()), (120, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_with_an_unread_answer_keeps_no_connection() {
        let requests = ConnectionRequests::of_one_client();
        let (mut read, mut unread) = (requests.begin(), requests.begin());
        requests.mark_admitted(|| None);
        unread.piece_given();
        for _ in 0..10 {
            read.piece_given();
            sleep(LATER / 2).await;
            assert!(requests.time_until_unused(FIRST, LATER).is_some(), "the other answer is read");
            read.piece_taken();
        }
        read.piece_given();
        let last = Instant::now();
        tokio::join!(requests.until_unused(FIRST, LATER), requests.until_stalled(LATER));
        assert_eq!((last.elapsed().as_secs(), requests.are_unread()), (120, true));
        read.piece_taken();
        assert!(
            !requests.are_unread() && requests.time_until_unused(FIRST, LATER).is_some(),
            "it is the server's turn"
        );
    }

    /// Asks without end, and is let in nowhere.
    async fn knock(requests: &ConnectionRequests) {
        loop {
            let _running = requests.begin();
            sleep(Duration::from_secs(7)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_were_not_let_in_lengthen_no_connection() {
        let requests = ConnectionRequests::of_one_client();
        let start = Instant::now();
        tokio::select! {
            () = requests.until_unused(FIRST, LATER) => {}
            () = knock(&requests) => {}
        }
        assert_eq!((start.elapsed().as_secs(), requests.asked()), (30, true));
    }
}
