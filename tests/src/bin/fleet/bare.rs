//! A collector that keeps nothing: what a stream with an answer to each message costs by itself.

use std::{net::SocketAddr, pin::Pin};

use plimsoll_proto::v1::{
    self as pb,
    agent_message::Message as Sent,
    collector_server::{Collector, CollectorServer},
    server_message::Message as Answer,
};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt as _, wrappers::TcpListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming, transport::Server};

struct Bare;

#[tonic::async_trait]
impl Collector for Bare {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<pb::ServerMessage, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<pb::AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let answers = request.into_inner().map(|message| {
            let answer = match message?.message {
                Some(Sent::Hello(hello)) => {
                    Answer::Welcome(pb::Welcome { attempt: hello.attempt, ..pb::Welcome::default() })
                }
                Some(Sent::Batch(batch)) => ack(batch.attempt, batch.first_sequence),
                Some(Sent::Finish(finish)) => ack(finish.attempt, finish.last_sequence),
                None => return Err(Status::invalid_argument("an empty message")),
            };
            Ok(pb::ServerMessage { message: Some(answer) })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn ack(attempt: String, acknowledged: u64) -> Answer {
    Answer::Ack(pb::Ack { attempt, acknowledged, sealed: false })
}

/// Serves in this process until it ends.
pub(crate) async fn start() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder().tcp_nodelay(true).add_service(CollectorServer::new(Bare));
    TaskTracker::new().spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Ok(address)
}
