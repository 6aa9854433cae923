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
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};

use super::{
    convert,
    outbound::{Answers, Outbound, outbound},
    status,
};
use crate::{
    domain::{AttemptId, Fault},
    ingest::{Ingest, Refusal, StreamHandle},
    metrics::Metrics,
    placing::Placing,
};

/// When agents should come back after a stop: long enough for a restart, short against their spools.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// Streams at once. Each may hold a message or two, 256 KiB each at worst.
const STREAMS: usize = 20_000;

/// The service `plimsoll.v1.Collector`.
#[derive(Debug)]
pub(super) struct CollectorService {
    ingest: Ingest,
    placing: Placing,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    stopping: CancellationToken,
    places: Arc<Semaphore>,
}

impl CollectorService {
    /// A service whose streams run as `tasks` until `stopping`.
    pub(super) fn new(
        ingest: Ingest,
        placing: Placing,
        metrics: Arc<Metrics>,
        tasks: TaskTracker,
        stopping: CancellationToken,
    ) -> Self {
        Self { ingest, placing, metrics, tasks, stopping, places: Arc::new(Semaphore::new(STREAMS)) }
    }
}

#[tonic::async_trait]
impl Collector for CollectorService {
    type StreamStream = Answers<pb::ServerMessage>;

    async fn stream(
        &self,
        request: Request<Streaming<pb::AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_full| status::of_crowd("streams of agents", STREAMS))?;
        let (outbound, answers) = outbound();
        let stream = AgentStream {
            ingest: self.ingest.clone(),
            placing: self.placing.clone(),
            handle: StreamHandle::new(),
            attempts: HashSet::new(),
            outbound,
        };
        let (metrics, stopping) = (Arc::clone(&self.metrics), self.stopping.clone());
        self.tasks.spawn(async move {
            metrics.streams.inc();
            stream.serve(request.into_inner(), stopping).await;
            metrics.streams.dec();
            drop(place);
        });
        Ok(Response::new(answers))
    }
}

/// One stream while it lives.
struct AgentStream {
    ingest: Ingest,
    placing: Placing,
    handle: StreamHandle,
    attempts: HashSet<AttemptId>,
    outbound: Outbound<pb::ServerMessage>,
}

/// What ends a stream, other than an error.
enum End {
    /// The client has said everything.
    Client,
    /// The server is about to stop.
    Stopping,
}

impl AgentStream {
    async fn serve(mut self, mut inbound: Streaming<pb::AgentMessage>, stopping: CancellationToken) {
        let end = self.exchange(&mut inbound, &stopping).await;
        // whatever ended the stream, the attempts are free for the next one
        self.ingest.leave(self.handle.clone(), self.attempts).await;
        match end {
            Ok(End::Client) => {}
            Ok(End::Stopping) => self.outbound.end(Some(goodbye()), status::of_refusal(&Refusal::Stopping)),
            Err(status) => self.outbound.end(None, status),
        }
    }

    async fn exchange(
        &mut self,
        inbound: &mut Streaming<pb::AgentMessage>,
        stopping: &CancellationToken,
    ) -> Result<End, Status> {
        loop {
            let message = tokio::select! {
                biased;
                () = stopping.cancelled() => return Ok(End::Stopping),
                () = self.handle.replaced.cancelled() => return Err(self.replaced()),
                message = inbound.message() => message?,
            };
            let Some(message) = message else { return Ok(End::Client) };
            let answer = self.take(message).await.map_err(|refusal| status::of_refusal(&refusal))?;
            let answer = pb::ServerMessage { message: Some(answer) };
            tokio::select! {
                biased;
                sent = self.outbound.send(answer) => sent?,
                // the answer is lost and its numbers are on disk: the next Welcome names them
                () = stopping.cancelled() => return Ok(End::Stopping),
                () = self.handle.replaced.cancelled() => return Err(self.replaced()),
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
        let tags = convert::runner_tags(&hello)?;
        let mut attempt = convert::hello(hello)?;
        if attempt.opening.pool.is_empty() {
            attempt.opening.pool = self.placing.named_by(&tags);
        }
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
}

fn goodbye() -> pb::ServerMessage {
    let advice = pb::Advice {
        reconnect_after_ms: u64::try_from(RECONNECT_AFTER.as_millis()).ok(),
        text: "the server is stopping; everything acknowledged is on disk".to_owned(),
    };
    pb::ServerMessage { message: Some(Answer::Advice(advice)) }
}
