//! Limits the concurrent streams of one kind. Each stream holds one slot of its kind and one of its
//! caller, and runs as a task. It ends when its client leaves, when its caller is no longer
//! admitted, and when the server stops.

use std::{pin::Pin, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;

use super::{
    caller::ended,
    outbound::{Answers, Outbound, outbound},
};
use crate::{
    access::{
        guard::Caller,
        identity::{Bound, UsageSlot},
    },
    ingest::Refusal,
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
    caller: Caller,
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
    /// Errors: all slots of the kind or of the caller are taken; the status is the answer.
    pub(super) fn reserve(&self, caller: Caller) -> Result<ReservedStream<'_>, Status> {
        let StreamLimit { what, most } = self.at_once;
        let place = Arc::clone(&self.slots).try_acquire_owned();
        let place = place.map_err(|_full| Refusal::Crowded { what, most })?;
        let own = caller.within(|caller| caller.place(Bound::Streams)).map_err(Refusal::Exceeded)?;
        Ok(ReservedStream { streams: self, caller, places: (place, own) })
    }
}

impl ReservedStream<'_> {
    /// Starts the stream. `serve` must end when the client leaves, when the caller is no longer
    /// admitted, and when the server stops.
    pub(super) fn serve<T, F>(
        self,
        serve: impl FnOnce(Outbound<T>, Caller, CancellationToken) -> F,
    ) -> Answers<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { streams: of, caller, places } = self;
        let (outbound, answers) = outbound();
        let serving = serve(outbound, caller, of.stopping.clone());
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
        self.serve(|outbound, caller, stopping| async move {
            let end = tokio::select! {
                () = stopping.cancelled() => Err(Refusal::Stopping.into()),
                () = outbound.client_left() => Ok(()),
                denied = caller.admission_ended() => Err(ended(&denied)),
                end = answer(&outbound) => end,
            };
            if let Err(status) = end {
                outbound.end(None, status);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;
    use tonic::Code;

    use super::*;
    use crate::{
        access::identity::{Identity, Role},
        door::grpc::OneStream,
    };

    /// A stream that sends nothing.
    fn open(streams: &Streams, caller: Caller) -> Result<Answers<()>, Code> {
        let stream = streams.reserve(caller).map_err(|status| status.code())?;
        Ok(stream.answer(|_outbound| Box::pin(std::future::pending())))
    }

    async fn ended(mut answers: Answers<()>) -> Code {
        answers.next().await.unwrap().unwrap_err().code()
    }

    #[tokio::test]
    async fn streams_are_limited_and_end_with_a_reason() {
        let (tasks, stopping, one) =
            (TaskTracker::new(), CancellationToken::new(), OneStream::new(Role::Reader));
        let at_once = StreamLimit { what: "streams of a test", most: 2 };
        let streams = Streams::new(at_once, tasks.clone(), stopping.clone());
        let of_one = open(&streams, one.caller()).unwrap();
        assert_eq!(open(&streams, one.caller()).err(), Some(Code::ResourceExhausted), "the caller has one");
        let of_others = open(&streams, Identity::anyone().into()).unwrap();
        let too_many = open(&streams, Identity::anyone().into()).err();
        assert_eq!(too_many, Some(Code::ResourceExhausted), "there are two");
        one.change();
        assert_eq!(ended(of_one).await, Code::Unavailable, "what it may do has changed");
        stopping.cancel();
        assert_eq!(ended(of_others).await, Code::Unavailable);
        // all slots are free again
        tasks.close();
        tasks.wait().await;
        let _both = [one.caller(), Identity::anyone().into()].map(|caller| open(&streams, caller).unwrap());
    }
}
