//! Counts running calls, and lets the server end calls that would otherwise wait for ever when it
//! stops.
//!
//! A call starts with its request, also one that is refused. A call of gRPC ends when the last byte of its answer is handed to the
//! connection, a request of HTTP when its answer begins: its connection sends the rest.

use std::sync::Arc;

use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// The running calls of both listeners. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<RunningCalls>);

#[derive(Debug, Default)]
struct RunningCalls {
    calls: TaskTracker,
    end_idle: CancellationToken,
}

impl Calls {
    /// Counts a call until the returned value is dropped.
    pub(crate) fn begin(&self) -> TaskTrackerToken {
        self.0.calls.token()
    }

    /// Ends answers as soon as they have nothing to send, now and from now on.
    pub(crate) fn end_idle(&self) {
        self.0.end_idle.cancel();
        self.0.calls.close();
    }

    /// Waits until no call runs. Call it after [`Self::end_idle`].
    pub(crate) async fn ended(&self) {
        self.0.calls.wait().await;
    }

    /// Completes when [`Self::end_idle`] has been called.
    pub(super) fn idle_ended(&self) -> WaitForCancellationFutureOwned {
        self.0.end_idle.clone().cancelled_owned()
    }

    pub(crate) fn running(&self) -> usize {
        self.0.calls.len()
    }
}
