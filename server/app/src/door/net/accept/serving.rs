//! The running requests of a connection, and the tasks that serve it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use tokio::task::AbortHandle;

/// What a listener knows of a connection that has a slot. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct Serving(Arc<ServingState>);

#[derive(Debug)]
struct ServingState {
    running_count: AtomicUsize,
    /// The tasks that serve the connection, one after the other; `None` once another connection has its slot.
    tasks: Mutex<Option<Vec<AbortHandle>>>,
}

impl Serving {
    pub(super) fn new() -> Self {
        Self(Arc::new(ServingState {
            running_count: AtomicUsize::new(0),
            tasks: Mutex::new(Some(Vec::new())),
        }))
    }

    /// Notes a task that serves the connection from now on.
    pub(super) fn add_task(&self, task: AbortHandle) {
        match &mut *self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(tasks) => tasks.push(task),
            None => task.abort(),
        }
    }

    /// Ends the connection at once, because another one gets its slot.
    pub(super) fn end(&self) {
        let tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        tasks.into_iter().flatten().for_each(|task| task.abort());
    }

    pub(super) fn begin_request(&self) {
        self.0.running_count.fetch_add(1, Relaxed);
    }

    /// What was written before is seen by those who then read a lower number of running requests.
    pub(super) fn end_request(&self) {
        self.0.running_count.fetch_sub(1, Release);
    }

    /// Number of running requests.
    pub(super) fn running(&self) -> usize {
        self.0.running_count.load(Acquire)
    }
}

#[cfg(test)]
impl Serving {
    /// Whether both are of one connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
