//! The streams of agents: converts messages, passes them to the writer, and sends the answers. A
//! few batches may wait for the disk at a time; `Hello` and `Finish` wait for the batches before
//! them. If more are waiting, nothing is read, so that a slow disk slows the agent down through the
//! HTTP/2 window.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use plimsoll_core::domain::{Attempt, AttemptId, FieldViolation};
use plimsoll_proto::{
    limits,
    v1::{
        self as pb, agent_message::Message as Sent, collector_server::Collector,
        server_message::Message as Answer,
    },
};
use prost::Message as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{
    caller::{caller, ended},
    outbound::{Answers, Outbound},
    pending_acks::PendingAcks,
    status::RpcResult,
    streams::{StreamLimit, Streams},
};
use crate::{
    access::{
        guard::Caller,
        identity::{Bound, ExceededBound, Identity},
    },
    door::wire::delivery,
    ingest::{Ingest, Refusal, Reply, StreamHandle},
    pools::PoolRegistry,
    runtime::{metrics::Metrics, skipped_facts::SkippedFacts},
};

/// When agents should reconnect after the server has stopped: long enough for a restart, and short
/// compared with the time that their spools last.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// Most streams. Each may hold one or two messages, of at most 256 KiB.
pub(super) const STREAMS: StreamLimit = StreamLimit { what: "streams of agents", most: 20_000 };

/// The service `plimsoll.v1.Collector`.
#[derive(Debug)]
pub(super) struct CollectorService {
    ingest: Ingest,
    pools: PoolRegistry,
    metrics: Arc<Metrics>,
    streams: Streams,
}

impl CollectorService {
    pub(super) fn new(ingest: Ingest, pools: PoolRegistry, metrics: Arc<Metrics>, streams: Streams) -> Self {
        Self { ingest, pools, metrics, streams }
    }
}

#[tonic::async_trait]
impl Collector for CollectorService {
    type StreamStream = Answers<pb::ServerMessage>;

    async fn stream(&self, request: Request<Streaming<pb::AgentMessage>>) -> RpcResult<Self::StreamStream> {
        let (stream, metrics) = (self.streams.reserve(caller(&request))?, Arc::clone(&self.metrics));
        let (ingest, pools) = (self.ingest.clone(), self.pools.clone());
        let answers = stream.serve(|outbound, caller, stopping| async move {
            let stream = AgentStream {
                ingest,
                pools,
                handle: StreamHandle::of(Arc::clone(&*caller)),
                caller,
                metrics: Arc::clone(&metrics),
                attempts: HashSet::new(),
                kept_ids: HashMap::new(),
                pending_acks: PendingAcks::default(),
                outbound,
            };
            metrics.streams.inc();
            stream.serve(request.into_inner(), stopping).await;
            metrics.streams.dec();
        });
        Ok(Response::new(answers))
    }
}

/// One stream of an agent.
struct AgentStream {
    caller: Caller,
    ingest: Ingest,
    pools: PoolRegistry,
    metrics: Arc<Metrics>,
    handle: StreamHandle,
    attempts: HashSet<AttemptId>,
    /// The ids under which attempts are kept, by the ids that the client goes on to name.
    kept_ids: HashMap<AttemptId, AttemptId>,
    pending_acks: PendingAcks,
    outbound: Outbound<pb::ServerMessage>,
}

/// Why a stream ends without an error.
enum StreamEnd {
    /// The client has ended the stream.
    Client,
    /// The server is about to stop.
    Stopping,
    /// The caller is no longer admitted; with the status for the client.
    Over(Status),
}

impl AgentStream {
    async fn serve(mut self, mut inbound: Streaming<pb::AgentMessage>, stopping: CancellationToken) {
        let end = self.exchange(&mut inbound, &stopping).await;
        // whatever ended the stream, another stream may now open its attempts
        self.ingest.leave(self.handle.clone(), self.attempts).await;
        match end {
            Ok(StreamEnd::Client) => {}
            Ok(StreamEnd::Stopping) => {
                self.outbound.end(Some(goodbye_message()), Refusal::Stopping.into());
            }
            Ok(StreamEnd::Over(status)) | Err(status) => self.outbound.end(None, status),
        }
    }

    async fn exchange(
        &mut self,
        inbound: &mut Streaming<pb::AgentMessage>,
        stopping: &CancellationToken,
    ) -> Result<StreamEnd, Status> {
        let caller = self.caller.clone();
        let mut over = pin!(caller.admission_ended());
        loop {
            let message = tokio::select! {
                biased;
                () = self.handle.replaced.cancelled() => return Err(self.replaced_status()),
                () = stopping.cancelled() => return self.await_pending(stopping).await.map(|()| StreamEnd::Stopping),
                denied = &mut over => return self.await_pending(stopping).await.map(|()| StreamEnd::Over(ended(&denied))),
                answer = self.pending_acks.next(), if !self.pending_acks.is_empty() => {
                    self.send_answer(answer, stopping).await?;
                    continue;
                }
                message = inbound.message(), if !self.pending_acks.is_full() => message?,
            };
            let Some(message) = message else {
                return self.await_pending(stopping).await.map(|()| StreamEnd::Client);
            };
            self.handle_message(message, stopping).await?;
        }
    }

    async fn handle_message(
        &mut self,
        message: pb::AgentMessage,
        stopping: &CancellationToken,
    ) -> Result<(), Status> {
        if let Err(status) = self.bounded(&message) {
            // earlier batches are acknowledged first
            self.await_pending(stopping).await?;
            return Err(status);
        }
        let answer = match message.message {
            Some(Sent::Batch(batch)) => match self.append_batch(&batch).await {
                Ok(()) => return Ok(()),
                Err(refusal) => {
                    // earlier batches are acknowledged first
                    self.await_pending(stopping).await?;
                    Err(refusal)
                }
            },
            Some(Sent::Hello(hello)) => {
                self.await_pending(stopping).await?;
                let takes_new_id = hello.takes_new_id;
                match self.attempt_of_hello(hello) {
                    Ok(attempt) => {
                        self.within(|caller| caller.note(&attempt, Instant::now()))?;
                        self.open(attempt, takes_new_id).await
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            Some(Sent::Finish(finish)) => {
                self.await_pending(stopping).await?;
                self.finish(&finish).await
            }
            None => Err(FieldViolation::new("message", "is empty; send hello, batch or finish").into()),
        };
        self.send_answer(answer, stopping).await
    }

    fn within(&self, asked: impl FnOnce(&Identity) -> Result<(), ExceededBound>) -> Result<(), Status> {
        Ok(self.caller.within(asked).map_err(Refusal::Exceeded)?)
    }

    /// Takes a message from the caller's rates of samples and bytes.
    fn bounded(&self, message: &pb::AgentMessage) -> Result<(), Status> {
        let samples = match &message.message {
            Some(Sent::Batch(batch)) => batch.samples.len(),
            _ => 0,
        };
        self.within(|caller| {
            let now = Instant::now();
            // checked first, because computing the length of a message takes time
            if caller.bounds.is_some() {
                caller.take(Bound::Bytes, message.encoded_len(), now)?;
            }
            caller.take(Bound::Samples, samples, now)
        })
    }

    /// Waits until all pending batches are acknowledged, and sends the acknowledgements.
    async fn await_pending(&mut self, stopping: &CancellationToken) -> Result<(), Status> {
        while !self.pending_acks.is_empty() {
            let answer = self.pending_acks.next().await;
            self.send_answer(answer, stopping).await?;
        }
        Ok(())
    }

    async fn send_answer(
        &mut self,
        answer: Reply<Answer>,
        stopping: &CancellationToken,
    ) -> Result<(), Status> {
        let answer = answer?;
        tokio::select! {
            biased;
            sent = self.outbound.send(pb::ServerMessage { message: Some(answer) }) => sent,
            // the answer is not sent, but the samples are on disk: the next Welcome has their
            // number
            () = stopping.cancelled() => Ok(()),
            () = self.handle.replaced.cancelled() => Err(self.replaced_status()),
        }
    }

    async fn append_batch(&mut self, batch: &pb::Batch) -> Reply<()> {
        let mut skipped = SkippedFacts::default();
        let mut append = delivery::batch(batch, &mut skipped)?;
        let attempt = append.attempt.clone();
        append.attempt = self.kept_id(&attempt);
        skipped.note(&self.metrics, "batch", attempt.as_str());
        let pending = self.ingest.append(append, &self.handle).await?;
        self.pending_acks.push(attempt, pending);
        Ok(())
    }

    async fn finish(&mut self, finish: &pb::Finish) -> Reply<Answer> {
        let mut skipped = SkippedFacts::default();
        let mut finish = delivery::finish(finish, &mut skipped)?;
        let attempt = finish.attempt.clone();
        let kept = self.kept_id(&attempt);
        finish.attempt.clone_from(&kept);
        skipped.note(&self.metrics, "finish", attempt.as_str());
        let acknowledged = self.ingest.finish(finish, &self.handle).await?;
        self.attempts.remove(&kept);
        self.kept_ids.remove(&attempt);
        Ok(Answer::Ack(pb::Ack { attempt: attempt.to_string(), acknowledged, sealed: true }))
    }

    /// The id under which the attempt is kept that the client names.
    fn kept_id(&self, named: &AttemptId) -> AttemptId {
        self.kept_ids.get(named).unwrap_or(named).clone()
    }

    /// The attempt in a `Hello`, with its fields overwritten by what the caller has proven.
    fn attempt_of_hello(&self, hello: pb::Hello) -> Reply<Attempt> {
        let mut skipped = SkippedFacts::default();
        let tags = delivery::runner_tags(&hello, &mut skipped);
        let is_foreign = hello.foreign;
        let mut attempt = delivery::hello(hello, &mut skipped)?;
        skipped.note(&self.metrics, "hello", attempt.id.as_str());
        self.caller.opens(&mut attempt).map_err(Refusal::Forbidden)?;
        attempt.opening.untrusted |= is_foreign;
        if attempt.opening.pool.is_empty() {
            attempt.opening.pool = self.pools.named_by(&tags);
        }
        Ok(attempt)
    }

    async fn open(&mut self, attempt: Attempt, takes_new_id: bool) -> Reply<Answer> {
        let asked = attempt.id.clone();
        if !self.attempts.contains(&self.kept_id(&asked)) && self.attempts.len() >= limits::STREAM_ATTEMPTS {
            let description =
                format!("{} attempts are open on this stream; finish some first", self.attempts.len());
            return Err(FieldViolation::new("hello.attempt", description).into());
        }
        let (ticket, project) = (attempt.opening.ticket.clone(), attempt.key.project.clone());
        let opened = self.ingest.open(attempt, &self.handle, takes_new_id).await;
        if let Err(Refusal::Exceeded(exceeded)) = &opened {
            // the writer found that a bound is exceeded; this call only counts it with all other
            // exceeded bounds
            let _refused = self.caller.within(|_caller| Err::<(), _>(exceeded.clone()));
        }
        let opened = opened?;
        let id = opened.attempt;
        let mut welcome = pb::Welcome {
            attempt: asked.to_string(),
            acknowledged: opened.acknowledged,
            sealed: opened.sealed,
            no_place: String::new(),
            runs_as: if id == asked { String::new() } else { id.to_string() },
        };
        if !opened.sealed {
            welcome.no_place =
                ticket.and_then(|ticket| self.ingest.no_place(&ticket, &id, &project)).unwrap_or_default();
            self.kept_ids.remove(&asked);
            if id != asked && !takes_new_id {
                self.kept_ids.insert(asked, id.clone());
            }
            self.attempts.insert(id);
        }
        Ok(Answer::Welcome(welcome))
    }

    fn replaced_status(&self) -> Status {
        if let Some(id) = self.handle.taken_over() {
            return Refusal::TakenOver(id.clone()).into();
        }
        let name = self.attempts.iter().next().cloned();
        name.map_or_else(
            || Status::aborted("a newer stream of the same agent took over"),
            |id| Refusal::Replaced(id).into(),
        )
    }
}

fn goodbye_message() -> pb::ServerMessage {
    let advice = pb::Advice {
        reconnect_after_ms: u64::try_from(RECONNECT_AFTER.as_millis()).ok(),
        text: "the server is stopping; everything acknowledged is on disk".to_owned(),
    };
    pb::ServerMessage { message: Some(Answer::Advice(advice)) }
}
