//! Limits the concurrent streams of one kind. Each stream holds one slot of its kind and one of its
//! caller, and runs as a task. It ends when its client leaves, when its caller is no longer
//! admitted, and when the server stops.

use std::{pin::Pin, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;

use super::{
    guarded::CallAdmission,
    outbound::{Answers, Outbound, outbound},
    status,
};
use crate::{
    access::identity::{Bound, UsageSlot},
    sessions::Refusal,
};

/// A kind of streams, and the limit for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamLimit {
    /// Name of the streams, for error texts.
    pub(super) what: &'static str,
    pub(super) most: usize,
}

/// The streams of one kind. Clones share the slots.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    at_once: StreamLimit,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// The slots of a stream that has not started.
pub(super) struct ReservedStream<'s> {
    streams: &'s Streams,
    admitted: CallAdmission,
    places: (OwnedSemaphorePermit, UsageSlot),
}

/// The future that sends the answers of a stream.
type ServingFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

impl Streams {
    /// Creates the slots. Streams run as `tasks`, and end at `stopping`.
    pub(super) fn new(at_once: StreamLimit, tasks: TaskTracker, stopping: CancellationToken) -> Self {
        Self { at_once, slots: Arc::new(Semaphore::new(at_once.most)), tasks, stopping }
    }

    /// Takes the slots for a stream of an admitted call.
    ///
    /// # Errors
    /// All slots of the kind or of the caller are taken; the status is the answer.
    pub(super) fn reserve(&self, admitted: CallAdmission) -> Result<ReservedStream<'_>, Status> {
        let StreamLimit { what, most } = self.at_once;
        let place = Arc::clone(&self.slots).try_acquire_owned();
        let place = place.map_err(|_full| status::of_refusal(&Refusal::Crowded { what, most }))?;
        let own = admitted.within(|caller| caller.place(Bound::Streams))?;
        Ok(ReservedStream { streams: self, admitted, places: (place, own) })
    }

    /// Number of free slots.
    #[cfg(test)]
    pub(super) fn free_slots(&self) -> usize {
        self.slots.available_permits()
    }
}

impl ReservedStream<'_> {
    /// Starts the stream. `serve` must end when the client leaves, when the caller is no longer
    /// admitted, and when the server stops.
    pub(super) fn serve<T, F>(
        self,
        serve: impl FnOnce(Outbound<T>, CallAdmission, CancellationToken) -> F,
    ) -> Answers<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { streams: of, admitted, places } = self;
        let (outbound, answers) = outbound();
        let serving = serve(outbound, admitted, of.stopping.clone());
        of.tasks.spawn(async move {
            serving.await;
            drop(places);
        });
        answers
    }

    /// Starts a stream that only sends answers. `answer` sends them; it is dropped when something
    /// else ends the stream. If it fails, its error is the last message to the client.
    pub(super) fn answer<T: Send + 'static>(
        self,
        answer: impl for<'a> FnOnce(&'a Outbound<T>) -> ServingFuture<'a> + Send + 'static,
    ) -> Answers<T> {
        self.serve(|outbound, admitted, stopping| async move {
            let ended = tokio::select! {
                () = stopping.cancelled() => Err(status::of_refusal(&Refusal::Stopping)),
                () = outbound.client_left() => Ok(()),
                status = admitted.admission_ended() => Err(status),
                ended = answer(&outbound) => ended,
            };
            if let Err(status) = ended {
                outbound.end(None, status);
            }
        })
    }
}
