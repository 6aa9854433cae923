//! A collector that takes everything and remembers how attempts ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use plimsoll_proto::v1::{
    Ack, AgentMessage, Finish, ServerMessage, Welcome,
    agent_message::Message,
    collector_server::{self, CollectorServer},
    server_message::Message as Answer,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::Router},
};

type Ended = Arc<Mutex<HashMap<String, Finish>>>;

/// A running collector. Ends when it is dropped.
pub(crate) struct Collector {
    pub(crate) url: String,
    ended: Ended,
    server: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Collector {
    pub(super) async fn start() -> Self {
        Self::serve(|service| Server::builder().add_service(service)).await
    }

    /// A collector beside other services.
    pub(crate) async fn serve(beside: impl FnOnce(CollectorServer<Service>) -> Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (ended, tasks) = (Ended::default(), TaskTracker::new());
        let service = CollectorServer::new(Service { ended: Arc::clone(&ended), tasks: tasks.clone() });
        let serving = beside(service).serve_with_incoming(TcpListenerStream::new(listener));
        let server = tasks.spawn(async move { serving.await.unwrap() });
        Self { url, ended, server }
    }

    /// How an attempt ended.
    pub(super) fn finish(&self, attempt: &str) -> Finish {
        self.ended.lock().unwrap().get(attempt).cloned().unwrap()
    }
}

pub(crate) struct Service {
    ended: Ended,
    tasks: TaskTracker,
}

#[tonic::async_trait]
impl collector_server::Collector for Service {
    type StreamStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, receiver) = mpsc::channel(64);
        let ended = Arc::clone(&self.ended);
        self.tasks.spawn(async move {
            let mut messages = request.into_inner();
            while let Ok(Some(message)) = messages.message().await {
                let answer = match message.message.unwrap() {
                    Message::Hello(hello) => {
                        Answer::Welcome(Welcome { attempt: hello.attempt, ..Welcome::default() })
                    }
                    Message::Batch(batch) => {
                        let acknowledged = batch.first_sequence + batch.samples.len() as u64 - 1;
                        Answer::Ack(Ack { attempt: batch.attempt, acknowledged, sealed: false })
                    }
                    Message::Finish(finish) => {
                        ended.lock().unwrap().insert(finish.attempt.clone(), finish.clone());
                        let acknowledged = finish.last_sequence;
                        Answer::Ack(Ack { attempt: finish.attempt, acknowledged, sealed: true })
                    }
                };
                drop(answers.send(Ok(ServerMessage { message: Some(answer) })).await);
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
