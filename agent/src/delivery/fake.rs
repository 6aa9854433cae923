//! A collector for tests: a real gRPC server on a free port, which keeps attempts by the rules of the wire contract, tells the
//! test what it sees, and misbehaves where the test wants it to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use plimsoll_proto::v1::{
    Ack, Advice, AgentMessage, Batch, Finish, Hello, Sample, ServerMessage, Welcome,
    agent_message::Message,
    collector_server::{Collector, CollectorServer},
    server_message::Message as Answer,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};

/// One attempt as the collector has it.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub(super) session: String,
    pub(super) acknowledged: u64,
    pub(super) samples: Vec<(u64, Sample)>,
    pub(super) lost: u64,
    /// The stream that may write.
    pub(super) holder: u64,
    pub(super) finish: Option<Finish>,
}

/// What the collector does wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Cut the connection without an acknowledgement after so many batches, once for each entry.
    pub(super) cut_after: Vec<u32>,
    /// Refuse Hello for these attempts.
    pub(super) refuse: HashMap<String, Code>,
    /// Seal, but never say so.
    pub(super) swallow_seals: u32,
    /// Say once, before an acknowledgement, that the server will stop and wants to be left alone so long.
    pub(super) advice_ms: Option<u64>,
    /// Never answer anything.
    pub(super) mute: bool,
}

/// What the collector saw.
#[derive(Debug)]
pub(super) enum Seen {
    Hello,
    Batch,
    Finish(Box<Finish>),
    Refused,
}

/// What the collector keeps; it outlives a restart, as a disk does.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) attempts: HashMap<String, Held>,
    faults: Faults,
    streams: u64,
}

/// One stream.
#[derive(Debug, Default)]
struct Stream {
    id: u64,
    attempt: String,
    batches: u32,
}

/// A running fake collector. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Fake {
    pub(super) url: String,
    pub(super) seen: mpsc::Receiver<Seen>,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fake {
    pub(super) async fn start(faults: Faults) -> Self {
        Self::start_on(Server::builder(), faults).await
    }

    /// A collector on a server of its own making, for example one with TLS.
    pub(super) async fn start_on(mut server: Server, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, seen) = mpsc::channel(10_000);
        let state = Arc::new(Mutex::new(State { faults, ..State::default() }));
        let service = service(Arc::clone(&state), Some(tell));
        let serving = server.add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        let server = TaskTracker::new().spawn(async move { serving.await.unwrap() });
        Self { url, seen, state, server }
    }

    pub(super) fn attempt(&self, id: &str) -> Held {
        self.state.lock().unwrap().attempts.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn preset(&self, id: &str, held: Held) {
        self.state.lock().unwrap().attempts.insert(id.to_owned(), held);
    }

    /// Waits until `wanted` is seen, and forgets what was before.
    pub(super) async fn wait_for(&mut self, wanted: impl Fn(&Seen) -> bool) {
        while let Some(seen) = self.seen.recv().await {
            if wanted(&seen) {
                return;
            }
        }
        panic!("the collector ended");
    }
}

/// The service over what it keeps.
pub(super) fn service(
    state: Arc<Mutex<State>>,
    tell: Option<mpsc::Sender<Seen>>,
) -> CollectorServer<Service> {
    CollectorServer::new(Service { state, tell, tasks: TaskTracker::new() })
}

pub(super) struct Service {
    state: Arc<Mutex<State>>,
    tell: Option<mpsc::Sender<Seen>>,
    tasks: TaskTracker,
}

#[tonic::async_trait]
impl Collector for Service {
    type StreamStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, receiver) = mpsc::channel(64);
        let (state, tell) = (Arc::clone(&self.state), self.tell.clone());
        self.tasks.spawn(async move {
            let mut messages = request.into_inner();
            let mut stream = Stream::default();
            while let Ok(Some(message)) = messages.message().await {
                let message = message.message.unwrap();
                let answer = state.lock().unwrap().take(message.clone(), &mut stream);
                let seen = match message {
                    _ if matches!(answer, Some(Err(_))) => Seen::Refused,
                    Message::Hello(_) => Seen::Hello,
                    Message::Batch(_) => Seen::Batch,
                    Message::Finish(finish) => Seen::Finish(Box::new(finish)),
                };
                if let Some(tell) = &tell {
                    tell.try_send(seen).unwrap();
                }
                let advice_ms = state
                    .lock()
                    .unwrap()
                    .faults
                    .advice_ms
                    .take_if(|_| matches!(answer, Some(Ok(Answer::Ack(_)))));
                if let Some(answer) =
                    advice_ms.map(|ms| Advice { reconnect_after_ms: Some(ms), ..Advice::default() })
                {
                    drop(answers.send(Ok(ServerMessage { message: Some(Answer::Advice(answer)) })).await);
                }
                let over = matches!(answer, Some(Err(_)));
                if let Some(answer) = answer {
                    let answer = answer.map(|answer| ServerMessage { message: Some(answer) });
                    drop(answers.send(answer).await);
                }
                if over {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

impl State {
    fn take(&mut self, message: Message, stream: &mut Stream) -> Option<Result<Answer, Status>> {
        if self.faults.mute {
            return None;
        }
        match message {
            Message::Hello(hello) => {
                self.streams += 1;
                *stream = Stream { id: self.streams, attempt: hello.attempt.clone(), ..Stream::default() };
                Some(self.hello(&hello, stream.id))
            }
            Message::Batch(batch) => {
                assert_eq!(batch.attempt, stream.attempt);
                stream.batches += 1;
                if self.faults.cut_after.first() == Some(&stream.batches) {
                    self.faults.cut_after.remove(0);
                    return Some(Err(Status::unavailable("cut")));
                }
                Some(self.batch(batch, stream.id))
            }
            Message::Finish(finish) => {
                assert_eq!(finish.attempt, stream.attempt);
                let answer = self.finish(finish, stream.id);
                if answer.is_ok() && self.faults.swallow_seals > 0 {
                    self.faults.swallow_seals -= 1;
                    return Some(Err(Status::unavailable("swallowed")));
                }
                Some(answer)
            }
        }
    }

    fn hello(&mut self, hello: &Hello, stream: u64) -> Result<Answer, Status> {
        if let Some(code) = self.faults.refuse.get(&hello.attempt) {
            return Err(Status::new(*code, "refused"));
        }
        let held = self.attempts.entry(hello.attempt.clone()).or_default();
        let sealed = held.finish.is_some();
        if !sealed && !held.session.is_empty() && held.session != hello.session {
            return Err(Status::already_exists("another agent holds it"));
        }
        held.session = hello.session.clone();
        held.holder = stream;
        Ok(Answer::Welcome(Welcome {
            attempt: hello.attempt.clone(),
            acknowledged: held.acknowledged,
            sealed,
            ..Welcome::default()
        }))
    }

    fn held(&mut self, attempt: &str, stream: u64) -> Result<&mut Held, Status> {
        let held = self.attempts.get_mut(attempt).unwrap();
        if held.holder == stream { Ok(held) } else { Err(Status::aborted("a newer stream took over")) }
    }

    fn batch(&mut self, batch: Batch, stream: u64) -> Result<Answer, Status> {
        let held = self.held(&batch.attempt, stream)?;
        let expected = held.acknowledged + 1;
        if batch.first_sequence - batch.lost > expected {
            return Err(Status::failed_precondition(format!("expected {expected}")));
        }
        held.lost += batch.first_sequence.saturating_sub(expected);
        let new = (batch.first_sequence..).zip(batch.samples).filter(|(number, _)| *number >= expected);
        for (number, sample) in new {
            let back = held.samples.last().is_some_and(|(_, last)| last.elapsed_ms >= sample.elapsed_ms);
            held.samples.push((number, sample));
            held.acknowledged = number;
            if back {
                return Err(Status::invalid_argument("time goes back"));
            }
        }
        Ok(Answer::Ack(Ack { attempt: batch.attempt, acknowledged: held.acknowledged, sealed: false }))
    }

    fn finish(&mut self, finish: Finish, stream: u64) -> Result<Answer, Status> {
        let held = self.held(&finish.attempt, stream)?;
        let short = held.samples.last().is_some_and(|(_, last)| finish.wall_ms < last.elapsed_ms);
        if finish.last_sequence < held.acknowledged || short {
            return Err(Status::invalid_argument("ends before its last sample"));
        }
        let missing = finish.last_sequence - held.acknowledged;
        if missing > finish.lost {
            return Err(Status::failed_precondition(format!("at {}", held.acknowledged)));
        }
        held.lost += missing;
        held.acknowledged = finish.last_sequence;
        held.finish = Some(finish.clone());
        Ok(Answer::Ack(Ack { attempt: finish.attempt, acknowledged: held.acknowledged, sealed: true }))
    }
}
