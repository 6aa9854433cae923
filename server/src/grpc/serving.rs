//! The connections of the gRPC listener, from their first byte to their last, and the threads that serve them.
//!
//! Every connection begins on the threads of the server. With the first stream of an agent, let in or not, it moves to those of the
//! agents, and that stream begins there: where thousands of streams are woken at once, a question on the same threads would wait for its
//! turn behind them. Other calls run on the threads of the server, whatever connection they come on.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::counter::Counter;
use tokio::{runtime::Handle, time::timeout};
use tokio_stream::StreamExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
};

use super::{
    connected::{Arrived, Links, turned_away},
    deadline,
};

/// A connection that does not answer a ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Streams of one connection: a proxy may put many agents on one.
const STREAMS_PER_CONNECTION: u32 = 1024;

/// Calls that a client took back before they were looked at, at most on one connection: what h2 has by itself, held here so that no
/// other release changes it.
const RESETS_PENDING: usize = 20;
/// Calls that a client made the server take back by breaking rules, at most on one connection (CVE-2025-8671). An honest client makes
/// none; held here as well.
const RESETS_MADE: usize = 256;

/// Bytes of the headers of one request. The longest header of a gRPC client is a token of a few KiB.
const HEADER_BYTES: u32 = 16 * 1024;

/// Time for a call until its answer begins. What answers from memory needs far less; a verdict waits for the disk, and a
/// client may send its question slowly. Streams answer at once and are bounded otherwise.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// The rpc that agents stay in.
const AGENTS_STREAM: &str = "/plimsoll.v1.Collector/Stream";

/// How connections are served.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    /// The threads of the agents.
    pub(super) agents: Handle,
    /// Counts calls whose answers did not begin in time.
    pub(super) late: Counter,
    pub(super) stopping: CancellationToken,
}

/// Serves `links` until it is stopped, then lets running calls end.
pub(super) async fn serve<S>(mut links: Links, service: S, runs: Runs)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let connections = TaskTracker::new();
    while let Some(Some(arrived)) = runs.stopping.run_until_cancelled(links.next()).await {
        let home = Home { server: Handle::current(), agents: runs.agents.clone(), found: Arc::default() };
        let serving = converse(arrived, service.clone(), home.clone(), runs.clone());
        connections.spawn(settle(Box::pin(serving), home, connections.clone()));
    }
    // nothing new is taken any more
    drop(links);
    connections.close();
    connections.wait().await;
}

/// The threads on which one connection and its calls are run.
#[derive(Debug, Clone)]
struct Home {
    server: Handle,
    agents: Handle,
    found: Arc<Found>,
}

/// What the calls of a connection were found to be. Written and read while the connection is polled, by one thread at a time.
#[derive(Debug, Default)]
struct Found {
    /// There was an agent's stream.
    agents: AtomicBool,
    /// The call that begins now is one.
    stream: AtomicBool,
}

impl Home {
    fn begin(&self, path: &str) {
        if path == AGENTS_STREAM {
            self.found.agents.store(true, Relaxed);
            self.found.stream.store(true, Relaxed);
        }
    }
}

/// Each call is begun and then spawned before the next one begins.
impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Home {
    fn execute(&self, call: F) {
        let home = if self.found.stream.swap(false, Relaxed) { &self.agents } else { &self.server };
        // nobody waits for it here: calls are counted where they are let in
        drop(home.spawn(call));
    }
}

/// Serves a connection here until it turns out to be one of agents, and from then on at its `home`.
async fn settle(
    mut serving: Pin<Box<impl Future<Output = ()> + Send + 'static>>,
    home: Home,
    connections: TaskTracker,
) {
    let ended = poll_fn(|cx| match serving.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        // seen while it was polled, nowhere else
        Poll::Pending if home.found.agents.load(Relaxed) => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    });
    if !ended.await {
        connections.spawn_on(serving, &home.agents);
    }
}

/// Serves a connection until its client leaves or the server stops.
async fn converse<S>(arrived: Arrived, service: S, home: Home, runs: Runs)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let begun = runs.stopping.run_until_cancelled(turned_away(arrived)).await.flatten();
    let Some(Arrived { io, peer }) = begun else { return };
    let builder = builder(home.clone());
    let late = runs.late;
    let service = service_fn(move |request: http::Request<Incoming>| {
        home.begin(request.uri().path());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        answer(service.clone(), request, late.clone())
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = runs.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let error = format!("{:#}", anyhow::Error::from(error));
        tracing::debug!(error, "a connection ended before its time");
    }
}

/// Answers a call, on the threads on which it runs: nothing is done of it before.
async fn answer<S>(
    mut service: S,
    request: http::Request<Body>,
    late: Counter,
) -> Result<http::Response<Body>, Infallible>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
{
    let within = deadline::of(request.headers()).map_or(ANSWER_WITHIN, |asked| asked.min(ANSWER_WITHIN));
    let answering = async {
        poll_fn(|cx| service.poll_ready(cx)).await?;
        service.call(request).await
    };
    timeout(within, answering).await.unwrap_or_else(|_late| {
        late.inc();
        Ok(Status::deadline_exceeded("the answer did not begin in time").into_http())
    })
}

fn builder(home: Home) -> http2::Builder<Home> {
    let mut builder = http2::Builder::new(home);
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_pending_accept_reset_streams(RESETS_PENDING)
        .max_local_error_reset_streams(RESETS_MADE);
    builder
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http2::{SendRequest, handshake};
    use hyper_util::rt::TokioExecutor;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::net::{TcpListener, TcpStream};
    use tower::service_fn;

    use super::*;
    use crate::{
        grpc::connected::links,
        incoming::{Counts, incoming},
        threads::agent_threads,
    };

    const QUESTION: &str = "/plimsoll.v1.Predictor/Predict";
    const NEVER: &str = "/plimsoll.v1.Predictor/ShouldRetry";

    /// Tells the name of the thread on which it runs, or never answers.
    async fn whereabouts(request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        if request.uri().path() == NEVER {
            std::future::pending::<()>().await;
        }
        let mut answer = http::Response::new(Body::empty());
        answer.headers_mut().insert("thread", thread().parse().unwrap());
        Ok(answer)
    }

    fn thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    async fn connect(address: std::net::SocketAddr, tasks: &TaskTracker) -> SendRequest<Body> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        drop(tasks.spawn(connection));
        client
    }

    async fn call(client: &mut SendRequest<Body>, path: &str) -> http::HeaderMap {
        let request = http::Request::post(format!("http://host{path}")).header("grpc-timeout", "50m");
        client.send_request(request.body(Body::empty()).unwrap()).await.unwrap().into_parts().0.headers
    }

    fn is_on_agents(answer: &http::HeaderMap) -> bool {
        answer["thread"] == "agents"
    }

    #[tokio::test]
    async fn streams_of_agents_run_on_their_own_threads_and_questions_beside_them_do_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let (connections, taking) = incoming(listener, 8, counts);
        let (links, shaking) = links(connections, None, Counter::default());
        let (stopping, late, threads) =
            (CancellationToken::new(), Counter::default(), agent_threads().unwrap());
        let runs = Runs { agents: threads.handle().clone(), late: late.clone(), stopping: stopping.clone() };
        let serving = serve(links, service_fn(whereabouts), runs);
        let clients = async {
            let tasks = TaskTracker::new();
            let (mut agent, mut other) = (connect(address, &tasks).await, connect(address, &tasks).await);
            assert!(!is_on_agents(&call(&mut agent, QUESTION).await));
            assert!(is_on_agents(&call(&mut agent, AGENTS_STREAM).await));
            assert!(!is_on_agents(&call(&mut agent, QUESTION).await));
            assert!(is_on_agents(&call(&mut agent, AGENTS_STREAM).await));
            assert!(!is_on_agents(&call(&mut other, QUESTION).await));
            let in_vain = call(&mut other, NEVER).await;
            assert_eq!(in_vain["grpc-status"], "4", "the caller waits no longer: {in_vain:?}");
            assert_eq!(late.get(), 1);
            // either kind ends with the server, although their clients would stay
            stopping.cancel();
            tasks.close();
            tasks.wait().await;
            drop((agent, other));
        };
        tokio::join!(serving, taking, shaking, clients);
        threads.shutdown_background();
    }

    /// Tells at each poll on which thread it is, and has an agent's stream at the third.
    async fn polls(home: Home, seen: tokio::sync::mpsc::Sender<String>) {
        for path in [QUESTION, QUESTION, AGENTS_STREAM, QUESTION] {
            seen.send(thread()).await.unwrap();
            home.begin(path);
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_moves_when_it_is_found_to_be_of_agents_and_goes_on_there() {
        let (threads, connections) = (agent_threads().unwrap(), TaskTracker::new());
        let (agents, server) = (threads.handle().clone(), Handle::current());
        let home = Home { server, agents, found: Arc::default() };
        let (seen, mut see) = tokio::sync::mpsc::channel(8);
        let serving = polls(home.clone(), seen);
        settle(Box::pin(serving), home, connections.clone()).await;
        connections.close();
        connections.wait().await;
        let mut names = Vec::new();
        see.recv_many(&mut names, 8).await;
        let here = thread();
        assert_eq!(names, [&here, &here, &here, "agents"]);
        threads.shutdown_background();
    }
}
