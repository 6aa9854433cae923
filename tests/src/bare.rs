//! A server that keeps nothing and works nothing out, as a process of its own: what gRPC and HTTP by themselves cost.
//!
//! A program that wants one calls [`is_asked`] first thing in its `main`, and then [`serve`]: the process is the same program.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    pin::Pin,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use axum::{Router, routing::get, serve::ListenerExt as _};
use plimsoll_proto::v1::{
    self as pb,
    agent_message::Message as Sent,
    collector_server::{Collector, CollectorServer},
    predictor_server::{Predictor, PredictorServer},
    server_message::Message as Answer,
};
use plimsoll_support::KilledChild;
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt as _, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport};

/// The word that makes a program the bare server.
const WORD: &str = "serve-bare";

type RpcResult<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Bare;

#[tonic::async_trait]
impl Collector for Bare {
    type StreamStream = Answers<pb::ServerMessage>;

    async fn stream(&self, request: Request<Streaming<pb::AgentMessage>>) -> RpcResult<Self::StreamStream> {
        let answers = request.into_inner().map(|message| {
            let answer = match message?.message {
                Some(Sent::Hello(hello)) => {
                    Answer::Welcome(pb::Welcome { attempt: hello.attempt, ..pb::Welcome::default() })
                }
                Some(Sent::Batch(batch)) => {
                    let last = batch.first_sequence + batch.samples.len() as u64 - 1;
                    ack(batch.attempt, last)
                }
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

#[tonic::async_trait]
impl Predictor for Bare {
    type PredictBatchStream = Answers<pb::PredictBatchResponse>;

    async fn predict(&self, _request: Request<pb::PredictRequest>) -> RpcResult<pb::PredictResponse> {
        Ok(Response::new(pb::PredictResponse::default()))
    }

    async fn predict_batch(
        &self,
        _request: Request<Streaming<pb::PredictRequest>>,
    ) -> RpcResult<Self::PredictBatchStream> {
        Err(Status::unimplemented("a bare server"))
    }

    async fn should_retry(
        &self,
        _request: Request<pb::ShouldRetryRequest>,
    ) -> RpcResult<pb::ShouldRetryResponse> {
        Ok(Response::new(pb::ShouldRetryResponse::default()))
    }

    async fn correct_verdict(
        &self,
        _request: Request<pb::CorrectVerdictRequest>,
    ) -> RpcResult<pb::CorrectVerdictResponse> {
        Err(Status::unimplemented("a bare server"))
    }

    async fn explain(&self, _request: Request<pb::PredictRequest>) -> RpcResult<pb::ExplainResponse> {
        Ok(Response::new(pb::ExplainResponse::default()))
    }
}

/// This process is to be the bare server.
pub fn is_asked() -> bool {
    env::args().nth(1).is_some_and(|word| word == WORD)
}

/// Serves until the process is killed; its addresses for gRPC and HTTP are the first line on stdout.
pub async fn serve() -> anyhow::Result<()> {
    crate::allow_open_files()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let http = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{} {}", listener.local_addr()?, http.local_addr()?)?;
    let incoming = TcpListenerStream::new(listener).map(|connection| {
        let connection = connection?;
        connection.set_nodelay(true)?;
        Ok::<_, std::io::Error>(connection)
    });
    let grpc = transport::Server::builder().add_service(CollectorServer::new(Bare));
    let grpc = grpc.add_service(PredictorServer::new(Bare)).serve_with_incoming(incoming);
    let http = axum::serve(http.tap_io(|connection| drop(connection.set_nodelay(true))), empty_route());
    tokio::select! {
        served = grpc => Ok(served?),
        served = http => Ok(served?),
    }
}

/// One route that answers at once.
fn empty_route() -> Router {
    Router::new().route("/empty", get(async || "ok\n"))
}

/// A bare server that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct BareServer {
    child: KilledChild,
    /// The URL for clients of gRPC.
    pub url: String,
    /// Where an empty route of HTTP is served, `/empty`.
    pub http: SocketAddr,
}

impl BareServer {
    /// Starts this program once more, as the bare server.
    pub fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.arg(WORD).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let (grpc, http) = line.trim().split_once(' ').context("two addresses")?;
        Ok(Self { child: KilledChild(child), url: format!("http://{grpc}"), http: http.parse()? })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }
}
