//! Whole servers on free ports, and how they stop.

use std::time::Duration;

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use plimsoll_support::postgres::PostgresServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{drain::LongTask, *};
use crate::{patience::eventually, runtime::metrics::KindLabel};

fn config(dir: &tempfile::TempDir) -> Config {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let data_dir = dir.path().join("data");
    Config { data_dir, grpc_listen: free, http_listen: free, ..Config::default() }
}

async fn built(config: Config) -> App {
    App::build(config, &CancellationToken::new()).await.unwrap().unwrap()
}

/// A server that serves, and the way to stop it.
struct Server {
    _dir: tempfile::TempDir,
    grpc: SocketAddr,
    http: SocketAddr,
    metrics: Arc<Metrics>,
    stop: oneshot::Sender<()>,
    ended: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Server {
    async fn start(drain_timeout: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let app = built(Config { drain_timeout, ..config(&dir) }).await;
        let Addresses { grpc, http, .. } = app.addresses().unwrap();
        let metrics = Arc::clone(&app.metrics);
        let (stop, stopped) = oneshot::channel();
        let run = app.run(Handle::current(), async { stopped.await.unwrap_or_default() });
        let ended = AbortOnDropHandle::new(TaskTracker::new().spawn(run));
        Self { _dir: dir, grpc, http, metrics, stop, ended }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap()
    }

    async fn connect(&self) -> Channel {
        self.endpoint().connect().await.unwrap()
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap()
    }
}

/// More than any machine needs to stop an idle server.
const PLENTY: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn idle_streams_do_not_delay_a_stop() {
    let server = Server::start(PLENTY).await;
    let channel = server.connect().await;
    let ask = HealthCheckRequest { service: String::new() };
    let mut health = HealthClient::new(channel.clone()).watch(ask).await.unwrap().into_inner();
    assert_eq!(health.message().await.unwrap().unwrap().status, 1, "serving");
    let mut watch = StatsClient::new(channel.clone()).watch(pb::WatchRequest {}).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let (asks, messages) = tokio::sync::mpsc::channel(1);
    let batch = PredictorClient::new(channel).predict_batch(ReceiverStream::new(messages)).await;
    let mut batch = batch.unwrap().into_inner();
    asks.send(pb::PredictRequest::default()).await.unwrap();
    batch.message().await.unwrap().unwrap();
    let (_grpc, _http) = (TcpStream::connect(server.grpc).await, TcpStream::connect(server.http).await);
    server.stop().await.unwrap();

    let mut response = health.message().await.unwrap().unwrap();
    if response.status == 1 {
        // it was said once more when the store was first looked at, which may have been later
        response = health.message().await.unwrap().unwrap();
    }
    assert_eq!(response.status, 2, "told before the end");
    assert_eq!(health.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(watch.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(batch.message().await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_client_is_cut_off_with_error() {
    let server = Server::start(PLENTY).await;
    let asks = tokio_stream::iter(std::iter::repeat_with(pb::PredictRequest::default));
    let mut client = PredictorClient::new(server.connect().await);
    let answers = client.predict_batch(asks).await.unwrap().into_inner();
    let reading = TaskTracker::new().spawn(async move { answers.filter(Result::is_err).next().await });
    server.stop().await.unwrap();
    // UNAVAILABLE, or what the client makes of a connection that is closed while it writes
    let end = reading.await.unwrap();
    assert!(matches!(end, Some(Err(_))), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_outlasting_drain_timeout_are_an_error() {
    let server = Server::start(Duration::from_millis(300)).await;
    // room for one byte of an answer, and the client reads none
    let endpoint = server.endpoint().initial_stream_window_size(1);
    let mut client = PredictorClient::new(endpoint.connect().await.unwrap());
    let key = Some(pb::Key { package: "zlib".into(), ..pb::Key::default() });
    let asks = tokio_stream::iter(std::iter::repeat(pb::PredictRequest { key, ..Default::default() }));
    let _unread = client.predict_batch(asks).await.unwrap().into_inner();
    let predicted = async || server.metrics.predictions.get_or_create(&KindLabel::of("default")).get();
    eventually("something is predicted", predicted, |number| *number > 0).await;
    // an answer is on its way, so the server cannot tell the client the end
    let error = server.stop().await.unwrap_err().to_string();
    // the call, or its connection where the cut came while its last answer was written
    assert!(error.ends_with("at the end of drain_timeout"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_ends_the_server_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = RunningServer::start(built(config(&dir)).await, Handle::current());
    running.worker_task = LongTask::new("ingest", TaskTracker::new().spawn(async { panic!("on purpose") }));
    let error = running.ended_early().await;
    let error = running.drain(Drain::begin(PLENTY, Some(error))).await.unwrap_err();
    assert!(error.to_string().starts_with("the ingest ended badly"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stopped_before_serving_releases_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(App::build(config(&dir), &stop).await.unwrap().is_none());
    let opens = async || App::build(config(&dir), &CancellationToken::new()).await.is_ok();
    eventually("the store is free", opens, |opens| *opens).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_connects_to_a_built_server_is_served() {
    let Some(database) = PostgresServer::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store_url = Some(database.url(&database.new_database()).parse().unwrap());
    let app = built(Config { store_url, ..config(&dir) }).await;
    let mut client = TcpStream::connect(app.addresses().unwrap().http).await.unwrap();
    client.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    let standby = timeout(Duration::from_millis(200), client.read_exact(&mut answer)).await;
    assert!(standby.is_err(), "{}", answer.escape_ascii());
    let stop = CancellationToken::new();
    let run = app.run(Handle::current(), stop.clone().cancelled_owned());
    let running = AbortOnDropHandle::new(TaskTracker::new().spawn(run));
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer.escape_ascii().to_string(), "HTTP/1.1 200");
    stop.cancel();
    running.await.unwrap().unwrap();
}
