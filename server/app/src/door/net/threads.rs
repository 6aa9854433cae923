//! Chooses the threads that serve a connection and its calls. With the first call to a path that has threads of its own, the connection
//! moves to those threads, and the call runs there. Thousands of agents' streams may wake up at once, and other calls would wait behind
//! them. So all other calls stay on the threads of the listener.

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

/// A path that has threads of its own.
#[derive(Debug, Clone)]
pub(crate) struct OwnThreads {
    pub(crate) path: &'static str,
    pub(crate) threads: Handle,
}

/// The threads on which one connection and its calls run.
#[derive(Debug, Clone)]
pub(super) struct Threads {
    default: Handle,
    own: Option<OwnThreads>,
    /// Whether there was a call to the path, and whether the call that begins now is one. Used by one thread at a time.
    found: Arc<(AtomicBool, AtomicBool)>,
}

impl Threads {
    pub(super) fn new(own: Option<OwnThreads>) -> Self {
        Self { default: Handle::current(), own, found: Arc::default() }
    }

    /// Call it when a call to this path begins.
    pub(super) fn begin(&self, path: &str) {
        if self.own.as_ref().is_some_and(|own| own.path == path) {
            self.found.0.store(true, Relaxed);
            self.found.1.store(true, Relaxed);
        }
    }

    /// Serves a connection on the present threads until a call to the path; from then on, on those of the path.
    pub(super) async fn run(
        self,
        serving: impl Future<Output = ()> + Send + 'static,
        connections: TaskTracker,
    ) {
        let mut serving = Box::pin(serving);
        let moved = poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending if self.found.0.load(Relaxed) => Poll::Ready(self.own.as_ref()),
            Poll::Pending => Poll::Pending,
        });
        if let Some(own) = moved.await {
            drop(connections.spawn_on(serving, &own.threads));
        }
    }
}

/// The HTTP library begins each call and passes it here before it begins the next one.
impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Threads {
    fn execute(&self, call: F) {
        let own = self.own.as_ref().filter(|_own| self.found.1.swap(false, Relaxed));
        // not awaited here: admitted calls are counted elsewhere
        drop(own.map_or(&self.default, |own| &own.threads).spawn(call));
    }
}
