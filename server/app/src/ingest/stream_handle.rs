//! A stream of an agent, as the worker identifies it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use plimsoll_core::domain::AttemptId;
use tokio_util::sync::CancellationToken;

use crate::access::identity::Identity;

/// A stream of an agent. Cheap to clone; clones are equal.
#[derive(Debug, Clone)]
pub(crate) struct StreamHandle {
    id: u64,
    /// Canceled to end the stream: the same agent opened a newer one, or a job's own agent took
    /// over its attempt.
    pub(crate) replaced: CancellationToken,
    taken_over: Arc<OnceLock<AttemptId>>,
    /// The caller that opened the stream.
    pub(crate) caller: Arc<Identity>,
}

impl StreamHandle {
    /// Creates a stream of a caller without bounds.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::of(Identity::anyone())
    }

    /// Creates a stream of this caller.
    pub(crate) fn of(caller: Arc<Identity>) -> Self {
        static NEXT_STREAM_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_STREAM_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, replaced: CancellationToken::new(), taken_over: Arc::default(), caller }
    }

    /// Ends the stream, because the job's own agent took over an attempt that this stream wrote.
    pub(crate) fn mark_taken_over(&self, attempt: &AttemptId) {
        // the first takeover is kept as the reason
        let _earlier = self.taken_over.set(attempt.clone());
        self.replaced.cancel();
    }

    /// The attempt that another stream took over, if that ended this one. `None` if the stream has not ended, or was
    /// replaced by a newer stream of its agent.
    pub(crate) fn taken_over(&self) -> Option<&AttemptId> {
        self.taken_over.get()
    }
}

impl PartialEq for StreamHandle {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
