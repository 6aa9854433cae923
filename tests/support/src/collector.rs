//! A collector for tests: a real gRPC server on a free port, which keeps attempts by the rules of the wire contract, tells the
//! test what it sees, and misbehaves where the test wants it to.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a collector that cannot do its work must fail the test"
)]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use plimsoll_proto::{
    job,
    v1::{
        Ack, Advice, AgentMessage, Batch, Finish, Hello, Sample, ServerMessage, Welcome,
        agent_message::Message,
        collector_server::{Collector, CollectorServer},
        server_message::Message as Answer,
    },
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{
    Code, Request, Response, Status, Streaming,
    transport::{Server, server::Router},
};

/// One attempt as the collector has it.
#[derive(Debug, Clone, Default)]
pub struct HeldAttempt {
    /// The session that opened it.
    pub session: String,
    /// Everything up to this number was taken.
    pub acknowledged: u64,
    /// Its samples with their numbers.
    pub samples: Vec<(u64, Sample)>,
    /// Samples that were declared lost.
    pub lost: u64,
    /// The stream that may write.
    pub holder: u64,
    /// How it ended.
    pub finish: Option<Finish>,
}

/// What the collector does wrong.
#[derive(Debug, Default)]
pub struct CollectorFaults {
    /// Cut the connection without an acknowledgement after so many batches, once for each entry.
    pub cut_after: Vec<u32>,
    /// Refuse Hello for these attempts.
    pub refuse: HashMap<String, Code>,
    /// Seal, but never say so.
    pub swallow_seals: u32,
    /// Say once, before an acknowledgement, that the server will stop and wants to be left alone so long.
    pub advice_ms: Option<u64>,
    /// Never answer anything.
    pub mute: bool,
    /// Answer each Hello with a Welcome and the end of another attempt.
    pub mistaken: bool,
    /// Forget an attempt when another session opens it: commands of one test may share its id.
    pub forgets: bool,
}

/// What the collector saw.
#[derive(Debug)]
pub enum CollectorEvent {
    /// A stream began.
    Hello,
    /// Samples came.
    Batch,
    /// An attempt ended.
    Finish(Box<Finish>),
    /// A message was refused.
    Refused,
}

/// What the collector keeps; it outlives a restart, as a disk does.
#[derive(Debug, Default)]
pub struct CollectorState {
    /// By their ids.
    pub attempts: HashMap<String, HeldAttempt>,
    faults: CollectorFaults,
    streams: u64,
}

/// One stream.
#[derive(Debug, Default)]
struct OpenStream {
    id: u64,
    attempt: String,
    batches: u32,
}

/// A running fake collector. Ends when it is dropped.
#[derive(Debug)]
pub struct FakeCollector {
    /// Its address.
    pub url: String,
    /// What it saw and no test has taken yet.
    pub seen: mpsc::Receiver<CollectorEvent>,
    state: Arc<Mutex<CollectorState>>,
    server: JoinHandle<()>,
}

impl Drop for FakeCollector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeCollector {
    /// Starts one with these faults.
    pub async fn start(faults: CollectorFaults) -> Self {
        Self::start_on(Server::builder(), faults).await
    }

    /// Starts one on a server of the caller's making, for example with TLS.
    pub async fn start_on(mut server: Server, faults: CollectorFaults) -> Self {
        Self::serve(faults, |service| server.add_service(service)).await
    }

    /// Starts one beside other services.
    pub async fn serve(
        faults: CollectorFaults,
        beside: impl FnOnce(CollectorServer<CollectorService>) -> Router,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, seen) = mpsc::channel(10_000);
        let state = Arc::new(Mutex::new(CollectorState { faults, ..CollectorState::default() }));
        let service = service(Arc::clone(&state), Some(tell));
        let serving = beside(service).serve_with_incoming(TcpListenerStream::new(listener));
        let server = TaskTracker::new().spawn(async move { serving.await.unwrap() });
        Self { url, seen, state, server }
    }

    /// An attempt as the collector has it; an empty one if it has none.
    pub fn attempt(&self, id: &str) -> HeldAttempt {
        self.state.lock().unwrap().attempts.get(id).cloned().unwrap_or_default()
    }

    /// How an attempt ended.
    pub fn finish(&self, id: &str) -> Finish {
        self.attempt(id).finish.unwrap()
    }

    /// Lets the collector have an attempt already.
    pub fn preset(&self, id: &str, held: HeldAttempt) {
        self.state.lock().unwrap().attempts.insert(id.to_owned(), held);
    }

    /// Waits until `wanted` is seen, and forgets what was before.
    pub async fn wait_for(&mut self, wanted: impl Fn(&CollectorEvent) -> bool) {
        while let Some(seen) = self.seen.recv().await {
            if wanted(&seen) {
                return;
            }
        }
        panic!("the collector ended");
    }
}

/// The service over what it keeps.
pub fn service(
    state: Arc<Mutex<CollectorState>>,
    tell: Option<mpsc::Sender<CollectorEvent>>,
) -> CollectorServer<CollectorService> {
    CollectorServer::new(CollectorService { state, tell, tasks: TaskTracker::new() })
}

/// The service over a [`CollectorState`].
#[derive(Debug)]
pub struct CollectorService {
    state: Arc<Mutex<CollectorState>>,
    tell: Option<mpsc::Sender<CollectorEvent>>,
    tasks: TaskTracker,
}

#[tonic::async_trait]
impl Collector for CollectorService {
    type StreamStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, receiver) = mpsc::channel(64);
        let (state, tell) = (Arc::clone(&self.state), self.tell.clone());
        self.tasks.spawn(async move {
            let mut messages = request.into_inner();
            let mut stream = OpenStream::default();
            while let Ok(Some(message)) = messages.message().await {
                let message = message.message.unwrap();
                let answer = state.lock().unwrap().take(message.clone(), &mut stream);
                let seen = match message {
                    _ if matches!(answer, Some(Err(_))) => CollectorEvent::Refused,
                    Message::Hello(_) => CollectorEvent::Hello,
                    Message::Batch(_) => CollectorEvent::Batch,
                    Message::Finish(finish) => CollectorEvent::Finish(Box::new(finish)),
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

impl CollectorState {
    fn take(&mut self, message: Message, stream: &mut OpenStream) -> Option<Result<Answer, Status>> {
        if self.faults.mute {
            return None;
        }
        match message {
            Message::Hello(hello) => {
                self.streams += 1;
                let id = self.streams;
                let answer = self.hello(&hello, id);
                *stream = OpenStream { id, attempt: self.id_for(&hello), ..OpenStream::default() };
                Some(answer)
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
        if self.faults.forgets {
            self.attempts.retain(|id, held| *id != hello.attempt || held.session == hello.session);
        }
        let id = self.id_for(hello);
        let runs_as = if id == hello.attempt { String::new() } else { id.clone() };
        let held = self.attempts.entry(id).or_default();
        let sealed = held.finish.is_some();
        if !sealed && !held.session.is_empty() && held.session != hello.session {
            return Err(Status::already_exists("another agent holds it"));
        }
        held.session.clone_from(&hello.session);
        held.holder = stream;
        if self.faults.mistaken {
            let attempt = "another\u{1b}[2J".to_owned();
            return Ok(Answer::Welcome(Welcome { attempt, sealed: true, ..Welcome::default() }));
        }
        Ok(Answer::Welcome(Welcome {
            attempt: hello.attempt.clone(),
            acknowledged: held.acknowledged,
            sealed,
            runs_as,
            ..Welcome::default()
        }))
    }

    /// The first id that no other run has, for an agent that takes another one.
    fn id_for(&self, hello: &Hello) -> String {
        let is_own = |id: &String| self.attempts.get(id).is_none_or(|held| held.session == hello.session);
        let asked = hello.attempt.clone();
        let runs = (2..).map(|number| job::run_id(&asked, number));
        let mut ids = std::iter::once(asked.clone()).chain(runs);
        if hello.takes_new_id { ids.find(is_own).unwrap_or(asked) } else { asked }
    }

    fn held(&mut self, attempt: &str, stream: u64) -> Result<&mut HeldAttempt, Status> {
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
