//! The agents' stream: convert, hand to the ingest, answer. One message at a time: the next one is read when the last one is
//! on disk, so a slow disk slows the sender down through the HTTP/2 window and nothing piles up here.

use std::{collections::HashSet, sync::Arc, time::Duration};

use plimsoll_proto::{
    limits,
    v1::{
        self as pb, agent_message::Message as Sent, collector_server::Collector,
        server_message::Message as Answer,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};

use super::{convert, status};
use crate::{
    domain::{AttemptId, Fault},
    ingest::{Ingest, Refusal, StreamHandle},
    metrics::Metrics,
};

/// Answers that may wait for a slow client before its stream is not read any further.
const ANSWERS: usize = 16;

/// When agents should come back after a stop: long enough for a restart, short against their spools.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// The service `plimsoll.v1.Collector`.
#[derive(Debug)]
pub(super) struct CollectorService {
    pub(super) ingest: Ingest,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
}

#[tonic::async_trait]
impl Collector for CollectorService {
    type StreamStream = ReceiverStream<Result<pb::ServerMessage, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<pb::AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let stream = AgentStream {
            ingest: self.ingest.clone(),
            handle: StreamHandle::new(),
            attempts: HashSet::new(),
            answers,
        };
        let (metrics, stopping) = (Arc::clone(&self.metrics), self.stopping.clone());
        self.tasks.spawn(async move {
            metrics.streams.inc();
            stream.serve(request.into_inner(), stopping).await;
            metrics.streams.dec();
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// One stream while it lives.
struct AgentStream {
    ingest: Ingest,
    handle: StreamHandle,
    attempts: HashSet<AttemptId>,
    answers: mpsc::Sender<Result<pb::ServerMessage, Status>>,
}

impl AgentStream {
    async fn serve(mut self, mut inbound: Streaming<pb::AgentMessage>, stopping: CancellationToken) {
        let end = self.exchange(&mut inbound, &stopping).await;
        // whatever ended the stream, the attempts are free for the next one
        self.ingest.leave(self.handle.clone(), self.attempts).await;
        if let Err(status) = end {
            // a client that is gone needs no status
            let _gone = self.answers.send(Err(status)).await;
        }
    }

    async fn exchange(
        &mut self,
        inbound: &mut Streaming<pb::AgentMessage>,
        stopping: &CancellationToken,
    ) -> Result<(), Status> {
        loop {
            let message = tokio::select! {
                biased;
                () = stopping.cancelled() => return self.say_goodbye().await,
                () = self.handle.replaced.cancelled() => return Err(self.replaced()),
                message = inbound.message() => message?,
            };
            let Some(message) = message else { return Ok(()) };
            let answer = self.take(message).await.map_err(|refusal| status::of_refusal(&refusal))?;
            if self.answers.send(Ok(pb::ServerMessage { message: Some(answer) })).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn take(&mut self, message: pb::AgentMessage) -> Result<Answer, Refusal> {
        match message.message {
            Some(Sent::Hello(hello)) => self.hello(hello).await,
            Some(Sent::Batch(batch)) => {
                let append = convert::batch(batch)?;
                let attempt = append.attempt.clone();
                let acknowledged = self.ingest.append(append, &self.handle).await?;
                Ok(Answer::Ack(pb::Ack { attempt: attempt.to_string(), acknowledged, sealed: false }))
            }
            Some(Sent::Finish(finish)) => {
                let finish = convert::finish(&finish)?;
                let attempt = finish.attempt.clone();
                let acknowledged = self.ingest.finish(finish, &self.handle).await?;
                self.attempts.remove(&attempt);
                Ok(Answer::Ack(pb::Ack { attempt: attempt.to_string(), acknowledged, sealed: true }))
            }
            None => Err(Fault::new("message", "is empty; send hello, batch or finish").into()),
        }
    }

    async fn hello(&mut self, hello: pb::Hello) -> Result<Answer, Refusal> {
        let attempt = convert::hello(hello)?;
        let id = attempt.id.clone();
        if !self.attempts.contains(&id) && self.attempts.len() >= limits::STREAM_ATTEMPTS {
            let description =
                format!("{} attempts are open on this stream; finish some first", self.attempts.len());
            return Err(Fault::new("hello.attempt", description).into());
        }
        let opened = self.ingest.open(attempt, &self.handle).await?;
        if !opened.sealed {
            self.attempts.insert(id.clone());
        }
        let (acknowledged, sealed) = (opened.acknowledged, opened.sealed);
        Ok(Answer::Welcome(pb::Welcome { attempt: id.to_string(), acknowledged, sealed }))
    }

    fn replaced(&self) -> Status {
        let name = self.attempts.iter().next().cloned();
        name.map_or_else(
            || Status::aborted("a newer stream of the same agent took over"),
            |id| status::of_refusal(&Refusal::Replaced(id)),
        )
    }

    async fn say_goodbye(&self) -> Result<(), Status> {
        let advice = pb::Advice {
            reconnect_after_ms: u64::try_from(RECONNECT_AFTER.as_millis()).ok(),
            text: "the server is stopping; everything acknowledged is on disk".to_owned(),
        };
        // a client that is gone needs no advice
        let _gone = self.answers.send(Ok(pb::ServerMessage { message: Some(Answer::Advice(advice)) })).await;
        Err(status::of_refusal(&Refusal::Stopping))
    }
}
