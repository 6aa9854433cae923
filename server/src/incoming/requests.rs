//! The requests of one connection: a connection that nobody asks anything on gives its place to somebody who does. Bytes prove
//! nothing: whoever answers pings moves some for ever.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::places::Place;

/// Timers are no finer: one that rings a moment early must not ring again and again.
const TICK: Duration = Duration::from_millis(1);

/// A handle on the requests of one connection.
#[derive(Clone)]
pub(crate) struct Requests(Arc<Mutex<State>>);

struct State {
    /// Given back when the connection ends, whoever still holds this.
    place: Option<Place>,
    running: usize,
    /// There was one that counts.
    asked: bool,
    /// The connection's beginning, or the end of the last request.
    since: Instant,
}

/// A request while it runs.
#[derive(Debug)]
pub(crate) struct Running(Requests);

impl Requests {
    pub(super) fn new(place: Place) -> Self {
        let since = Instant::now();
        Self(Arc::new(Mutex::new(State { place: Some(place), running: 0, asked: false, since })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request for as long as the result lives.
    pub(crate) fn begin(&self) -> Running {
        let mut state = self.state();
        state.running += 1;
        state.asked = true;
        if let Some(place) = &mut state.place {
            place.keep();
        }
        Running(self.clone())
    }

    /// Whether there was a request.
    pub(crate) fn asked(&self) -> bool {
        self.state().asked
    }

    /// Comes when no request ran for too long: at first for `first`, after one for `later`. The clock is looked at when that may be
    /// so, not at each request.
    pub(crate) async fn unused(self, first: Duration, later: Duration) {
        loop {
            let left = self.left(first, later);
            if left.is_zero() {
                return;
            }
            sleep(left + TICK).await;
        }
    }

    /// How long no request may run from now on.
    fn left(&self, first: Duration, later: Duration) -> Duration {
        let state = self.state();
        let bound = if state.asked { later } else { first };
        let passed = if state.running > 0 { Duration::ZERO } else { state.since.elapsed() };
        bound.saturating_sub(passed)
    }

    pub(super) fn leave(&self) {
        self.state().place = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
        state.since = Instant::now();
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
        requests.clone().unused(FIRST, LATER).await;
        assert_eq!((start.elapsed().as_secs(), requests.asked()), (30, false));
        let running = requests.begin();
        let mut unused = std::pin::pin!(requests.clone().unused(FIRST, LATER));
        tokio::select! {
            () = unused.as_mut() => panic!("a request runs"),
            () = sleep(LATER * 10) => {}
        }
        drop(running);
        let last = Instant::now();
        unused.await;
        assert_eq!((last.elapsed().as_secs(), requests.asked()), (120, true));
    }
}
