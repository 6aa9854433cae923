//! The connections of the gRPC listener, from their first byte to their last, and the threads that serve them.
//!
//! Every connection begins on the threads of the server. With the first stream of an agent it moves to those of the agents, with all
//! its calls: where thousands of streams are woken at once, a question on the same threads would wait for its turn behind them.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{runtime::Handle, time::timeout};
use tokio_stream::StreamExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
};

use super::{
    connected::{Arrived, Links},
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

/// Serves `links` until `stopping`, then lets running calls end. Connections with streams of agents are served by `agents`.
pub(super) async fn serve<S>(mut links: Links, service: S, agents: Handle, stopping: CancellationToken)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let connections = TaskTracker::new();
    while let Some(Some(arrived)) = stopping.run_until_cancelled(links.next()).await {
        let home = Home { agents: agents.clone(), moved: Arc::default() };
        let serving = converse(arrived, service.clone(), home.clone(), stopping.clone());
        connections.spawn(settle(Box::pin(serving), home, connections.clone()));
    }
    // nothing new is taken any more
    drop(links);
    connections.close();
    connections.wait().await;
}

/// The threads that serve one connection.
#[derive(Debug, Clone)]
struct Home {
    agents: Handle,
    /// Whether it is a connection of agents.
    moved: Arc<AtomicBool>,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Home {
    fn execute(&self, call: F) {
        if self.moved.load(Relaxed) {
            // nobody waits for a call: its connection does not end before it
            drop(self.agents.spawn(call));
        } else {
            TokioExecutor::new().execute(call);
        }
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
        Poll::Pending if home.moved.load(Relaxed) => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    });
    if !ended.await {
        connections.spawn_on(serving, &home.agents);
    }
}

/// Serves a connection until its client leaves or the server stops.
async fn converse<S>(Arrived { io, peer }: Arrived, service: S, home: Home, stopping: CancellationToken)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let builder = builder(home.clone());
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut request = request.map(Body::new);
        if request.uri().path() == AGENTS_STREAM {
            home.moved.store(true, Relaxed);
        }
        request.extensions_mut().insert(peer.clone());
        let within = deadline::of(request.headers()).map_or(ANSWER_WITHIN, |asked| asked.min(ANSWER_WITHIN));
        let answering = timeout(within, service.clone().call(request));
        async { answering.await.unwrap_or_else(|_late| Ok(late().into_http())) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended before its time");
    }
}

fn late() -> Status {
    Status::deadline_exceeded("the answer did not begin in time")
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
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
    use tokio::net::{TcpListener, TcpStream};
    use tower::service_fn;

    use super::*;
    use crate::{
        grpc::connected::links,
        incoming::{Counts, incoming},
        threads,
    };

    const QUESTION: &str = "/plimsoll.v1.Predictor/Predict";
    const NEVER: &str = "/plimsoll.v1.Predictor/ShouldRetry";

    fn thread() -> http::HeaderValue {
        std::thread::current().name().unwrap_or_default().parse().unwrap()
    }

    /// Tells the names of the threads that served its connection and itself, or never answers.
    fn whereabouts(
        request: http::Request<Body>,
    ) -> impl Future<Output = Result<http::Response<Body>, Infallible>> {
        let connection = thread();
        async move {
            if request.uri().path() == NEVER {
                std::future::pending::<()>().await;
            }
            let mut answer = http::Response::new(Body::empty());
            answer.headers_mut().insert("of-connection", connection);
            answer.headers_mut().insert("of-call", thread());
            Ok(answer)
        }
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

    /// Whether the connection and the call were served by the threads of the agents.
    fn on_agents(answer: &http::HeaderMap) -> [bool; 2] {
        ["of-connection", "of-call"].map(|thread| answer[thread] == "agents")
    }

    #[tokio::test]
    async fn a_connection_is_served_by_the_agents_threads_once_an_agent_streams_on_it_and_no_other_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let (connections, taking) = incoming(listener, 8, counts);
        let (links, shaking) = links(connections, None, Counter::default());
        let stopping = CancellationToken::new();
        let serving = serve(links, service_fn(whereabouts), threads::of_agents(), stopping.clone());
        let clients = async move {
            let tasks = TaskTracker::new();
            let (mut agent, mut other) = (connect(address, &tasks).await, connect(address, &tasks).await);
            assert_eq!(on_agents(&call(&mut agent, QUESTION).await), [false, false]);
            assert_eq!(on_agents(&call(&mut agent, AGENTS_STREAM).await), [false, true], "it moves now");
            assert_eq!(on_agents(&call(&mut agent, QUESTION).await), [true, true]);
            assert_eq!(on_agents(&call(&mut agent, AGENTS_STREAM).await), [true, true]);
            assert_eq!(on_agents(&call(&mut other, QUESTION).await), [false, false]);
            let late = call(&mut other, NEVER).await;
            assert_eq!(late["grpc-status"], "4", "the caller waits no longer: {late:?}");
            // either kind ends with the server, although their clients would stay
            stopping.cancel();
            tasks.close();
            tasks.wait().await;
            drop((agent, other));
        };
        tokio::join!(serving, taking, shaking, clients);
    }
}
