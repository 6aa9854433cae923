//! The requests of one connection: a connection without requests gives its place to one that has some. Bytes prove
//! nothing: a client that answers pings moves some for ever. Nor does a request prove anything whose answer is not read: from its first piece on,
//! only the next piece that is taken does.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};

use super::places::ConnectionSlot;

/// Timers are no finer: one that rings a moment early must not ring again and again.
const TICK: Duration = Duration::from_millis(1);

/// A handle on the requests of one connection. A request costs no lock, but for the first one of a connection.
#[derive(Clone)]
pub(crate) struct Requests(Arc<State>);

struct State {
    /// Given back when the connection ends, even if this is still held elsewhere.
    place: Mutex<Option<ConnectionSlot>>,
    /// There was one.
    asked: AtomicBool,
    /// There was one that was let in.
    let_in: AtomicBool,
    /// The client has sent the preface of HTTP/2.
    preface: AtomicBool,
    /// See [`Requests::has_left_body`].
    left_body: AtomicBool,
    running: AtomicUsize,
    /// Those of them that wait for the client to take a piece of their answer.
    unread: AtomicUsize,
    /// The connection's beginning.
    began: Instant,
    /// When the last one ended since one was let in, or a piece of an answer was given, nanoseconds since then. A task that finds none running
    /// finds that end here.
    ended: AtomicU64,
}

/// A request while it runs.
#[derive(Debug)]
pub(crate) struct Running {
    requests: Requests,
    /// It waits for the client.
    unread: bool,
}

impl Requests {
    pub(super) fn new(place: ConnectionSlot) -> Self {
        Self(Arc::new(State {
            place: Mutex::new(Some(place)),
            asked: AtomicBool::new(false),
            let_in: AtomicBool::new(false),
            preface: AtomicBool::new(false),
            left_body: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            began: Instant::now(),
            ended: AtomicU64::new(0),
        }))
    }

    /// Counts a request for as long as the result lives. That alone keeps no place: see [`Self::let_in`].
    pub(crate) fn begin(&self) -> Running {
        self.0.running.fetch_add(1, Relaxed);
        self.0.asked.store(true, Relaxed);
        Running { requests: self.clone(), unread: false }
    }

    /// A request was accepted: from now on the connection keeps its place for as long as it is used.
    pub(crate) fn let_in(&self) {
        if self.0.let_in.load(Relaxed) {
            return;
        }
        if let Some(place) = &mut *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) {
            place.keep();
        }
        self.0.let_in.store(true, Relaxed);
    }

    /// Whether a request was let in.
    pub(crate) fn was_let_in(&self) -> bool {
        self.0.let_in.load(Relaxed)
    }

    /// Whether there was a request, let in or not.
    pub(crate) fn asked(&self) -> bool {
        self.0.asked.load(Relaxed)
    }

    /// Whether there are requests, and all of them only wait for the client to take more of their answers.
    pub(crate) fn are_unread(&self) -> bool {
        let running = self.0.running.load(Acquire);
        running > 0 && running <= self.0.unread.load(Relaxed)
    }

    /// The client has sent the preface of HTTP/2.
    pub(crate) fn preface_came(&self) {
        self.0.preface.store(true, Relaxed);
    }

    /// Comes so long after the connection's beginning, if the client has not sent the preface of HTTP/2 by then.
    pub(crate) async fn no_preface(&self, within: Duration) {
        sleep_until(self.0.began + within).await;
        if self.0.preface.load(Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// A handler has left a part of a request's body.
    pub(crate) fn body_left(&self) {
        self.0.left_body.store(true, Relaxed);
    }

    /// Whether the client may still be sending a body that nothing reads.
    pub(crate) fn has_left_body(&self) -> bool {
        self.0.left_body.load(Relaxed)
    }

    /// Comes when for so long, or twice as long, no request ran but those that wait for their client, and it has taken nothing.
    pub(crate) async fn stalled(&self, bound: Duration) {
        loop {
            sleep(bound).await;
            let runs = self.0.running.load(Acquire) > 0 && !self.are_unread();
            if !runs && self.left(bound, bound).is_none() {
                return;
            }
        }
    }

    /// Comes when no request ran for too long: see [`Self::left`]. The clock is looked at when that may be so, not at each request.
    pub(crate) async fn unused(&self, first: Duration, later: Duration) {
        while let Some(left) = self.left(first, later) {
            sleep(left).await;
        }
    }

    /// How long it takes at least until no request ran for too long: for `first` since the connection's beginning, and once one was let
    /// in for `later`. `None` if that is so. One that was not let in gains no time.
    pub(crate) fn left(&self, first: Duration, later: Duration) -> Option<Duration> {
        // first: what a request that has ended wrote before is seen then
        let runs = self.0.running.load(Acquire) > self.0.unread.load(Relaxed);
        let let_in = self.0.let_in.load(Relaxed);
        let bound = if let_in { later } else { first };
        let ended = Duration::from_nanos(self.0.ended.load(Relaxed));
        let passed =
            if runs && let_in { Duration::ZERO } else { self.0.began.elapsed().saturating_sub(ended) };
        bound.checked_sub(passed).filter(|left| !left.is_zero()).map(|left| left + TICK)
    }

    /// Something happened for which the connection was made.
    fn moved(&self) {
        if self.0.let_in.load(Relaxed) {
            let now = u64::try_from(self.0.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.0.ended.fetch_max(now, Relaxed);
        }
    }

    pub(super) fn leave(&self) {
        drop(self.0.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Running {
    /// The client was given a piece of its answer: until it has taken that, this request keeps no connection.
    pub(crate) fn given(&mut self) {
        self.requests.moved();
        if !std::mem::replace(&mut self.unread, true) {
            self.requests.0.unread.fetch_add(1, Relaxed);
        }
    }

    /// The client has taken what it was given.
    pub(crate) fn taken(&mut self) {
        if std::mem::take(&mut self.unread) {
            self.requests.0.unread.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.requests.moved();
        self.taken();
        self.requests.0.running.fetch_sub(1, Release);
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{super::places::Places, *};

    const FIRST: Duration = Duration::from_secs(30);
    const LATER: Duration = Duration::from_mins(2);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_unused_a_while_after_its_last_request_and_never_while_one_runs() {
        let place = Places::of(1).take(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let requests = Requests::new(place);
        let start = Instant::now();
        requests.unused(FIRST, LATER).await;
        assert_eq!((start.elapsed().as_secs(), requests.asked()), (30, false));
        let running = requests.begin();
        requests.let_in();
        let mut unused = std::pin::pin!(requests.unused(FIRST, LATER));
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
        let requests = Requests::new(Places::of(1).take(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap());
        let (mut read, mut unread) = (requests.begin(), requests.begin());
        requests.let_in();
        unread.given();
        for _ in 0..10 {
            read.given();
            sleep(LATER / 2).await;
            assert!(requests.left(FIRST, LATER).is_some(), "the other answer is read");
            read.taken();
        }
        read.given();
        let last = Instant::now();
        tokio::join!(requests.unused(FIRST, LATER), requests.stalled(LATER));
        assert_eq!((last.elapsed().as_secs(), requests.are_unread()), (120, true));
        read.taken();
        assert!(!requests.are_unread() && requests.left(FIRST, LATER).is_some(), "it is the server's turn");
    }

    /// Asks without end, and is let in nowhere.
    async fn knock(requests: &Requests) {
        loop {
            let _running = requests.begin();
            sleep(Duration::from_secs(7)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_were_not_let_in_lengthen_no_connection() {
        let requests = Requests::new(Places::of(1).take(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap());
        let start = Instant::now();
        tokio::select! {
            () = requests.unused(FIRST, LATER) => {}
            () = knock(&requests) => {}
        }
        assert_eq!((start.elapsed().as_secs(), requests.asked()), (30, true));
    }
}
