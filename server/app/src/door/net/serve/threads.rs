//! Chooses the threads that serve a connection and its calls. Every connection begins on the
//! threads of its listener. With the first call to a path that has threads of its own, admitted or
//! not, the connection moves to those threads, and the call runs there. Thousands of agents'
//! streams may wake up at once, and other calls on the same threads would wait behind them. So
//! other calls stay on the threads of the listener, whatever connection they come on.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
};

use hyper::rt::Executor;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::door::net::accept::ConnectionRequests;

/// A path that has threads of its own.
#[derive(Debug, Clone)]
pub(crate) struct OwnThreads {
    pub(crate) path: &'static str,
    pub(crate) threads: Handle,
}

/// The threads on which one connection and its calls run.
#[derive(Debug, Clone)]
pub(super) struct Threads {
    default_runtime: Handle,
    own_runtime: Option<OwnThreads>,
    found_calls: Arc<FoundCalls>,
}

/// What is known of the calls of a connection. Written and read while the connection is polled, by
/// one thread at a time.
#[derive(Debug, Default)]
struct FoundCalls {
    /// Whether there was a call to the path.
    any_on_own: AtomicBool,
    /// Whether the call that begins now is to the path.
    now_on_own: AtomicBool,
}

impl Threads {
    /// Creates the state of a connection that begins on the present threads.
    pub(super) fn of(own: Option<&OwnThreads>) -> Self {
        Self { default_runtime: Handle::current(), own_runtime: own.cloned(), found_calls: Arc::default() }
    }

    /// Call it when a call to this path begins.
    pub(super) fn begin(&self, path: &str) {
        if self.own_runtime.as_ref().is_some_and(|own| own.path == path) {
            self.found_calls.any_on_own.store(true, Relaxed);
            self.found_calls.now_on_own.store(true, Relaxed);
        }
    }

    /// Serves a connection on the present threads until a call to the path with threads of its own;
    /// from then on, on those threads.
    pub(super) async fn run(
        self,
        serving: impl Future<Output = ()> + Send + 'static,
        requests: ConnectionRequests,
        connections: TaskTracker,
    ) {
        let mut serving = Box::pin(serving);
        let moved = poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            // the connection was just polled, so a call to the path has set this
            Poll::Pending if self.found_calls.any_on_own.load(Relaxed) => {
                Poll::Ready(self.own_runtime.as_ref())
            }
            Poll::Pending => Poll::Pending,
        });
        if let Some(own) = moved.await {
            requests.served_by(connections.spawn_on(serving, &own.threads).abort_handle());
        }
    }
}

/// The HTTP library begins each call and passes it here before it begins the next one, so
/// `now_on_own` belongs to this call.
impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Threads {
    fn execute(&self, call: F) {
        let own = self.own_runtime.as_ref().filter(|_own| self.found_calls.now_on_own.swap(false, Relaxed));
        // the task is not awaited here: admitted calls are counted elsewhere
        drop(own.map_or(&self.default_runtime, |own| &own.threads).spawn(call));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_store::threads::agent_threads;

    use super::*;

    const OWN: &str = "/plimsoll.v1.Collector/Stream";
    const OTHER: &str = "/plimsoll.v1.Predictor/Predict";

    fn thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// Tells at each poll on which thread it is, and has a call with threads of its own at the third.
    async fn polls(threads: Threads, seen: tokio::sync::mpsc::Sender<String>) {
        for path in [OTHER, OTHER, OWN, OTHER] {
            seen.send(thread()).await.unwrap();
            threads.begin(path);
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_moves_with_the_first_call_that_has_threads_of_its_own_and_goes_on_there() {
        let (agents, connections) = (agent_threads().unwrap(), TaskTracker::new());
        let threads = Threads::of(Some(&OwnThreads { path: OWN, threads: agents.handle().clone() }));
        let (seen, mut see) = tokio::sync::mpsc::channel(8);
        let requests = ConnectionRequests::of_one_client();
        threads.clone().run(polls(threads, seen), requests, connections.clone()).await;
        connections.close();
        connections.wait().await;
        let mut names = Vec::new();
        see.recv_many(&mut names, 8).await;
        let here = thread();
        assert_eq!(names, [&here, &here, &here, "agents"]);
        agents.shutdown_background();
    }
}
