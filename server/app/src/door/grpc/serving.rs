//! Serves gRPC connections with time limits.
//!
//! The streams of agents, and the connections with such streams, run on threads of their own.

use std::{convert::Infallible, sync::Arc, time::Duration};

use prometheus_client::metrics::family::Family;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    codegen::{Service, http},
};

use super::gate::Gate;
use crate::{
    door::net::{self, Bounds, Listener, OwnThreads, Policy},
    runtime::metrics::Metrics,
};

/// Time limit for the first call of a connection: every gRPC client sends it at once.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the first admitted call of a connection: an agent sends it at once.
const ADMITTED_WITHIN: Duration = Duration::from_mins(1);
/// Time limit from the head of a call to the end of its message. The largest messages have 4 MiB; most arrive with the head.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);
/// A connection without a call for this long is closed; the client connects again for its next
/// call. A running agent always has a call.
const UNUSED_AFTER: Duration = Duration::from_mins(5);

/// Most streams of one connection. A proxy may put the streams of many agents on one connection.
const STREAMS_PER_CONNECTION: u32 = 1024;

/// The rpc of the agents' streams.
const AGENTS_STREAM: &str = "/plimsoll.v1.Collector/Stream";

/// The limits for this number of connections. Streams of agents run on the threads `agents`.
pub(crate) fn policy(connections: usize, agents: Handle, metrics: &Metrics) -> Policy {
    Policy {
        bounds: Bounds {
            connections,
            first: FIRST_WITHIN,
            admitted: ADMITTED_WITHIN,
            body: MESSAGE_WITHIN,
            idle: UNUSED_AFTER,
        },
        streams: STREAMS_PER_CONNECTION,
        grpc: Some(OwnThreads { path: AGENTS_STREAM, threads: agents }),
        open: metrics.connections.clone(),
        replaced: metrics.connections_replaced.clone(),
        cut: Family::default(),
    }
}

/// Serves until `stopping`, then lets running calls end.
pub(super) async fn serve<S>(listener: Listener, policy: Policy, gate: Gate<S>, stopping: CancellationToken)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let gate = Arc::new(gate);
    net::serve(listener, policy, move |request| Arc::clone(&gate).answer(request), stopping).await;
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http2::{SendRequest, handshake};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use plimsoll_store::threads::agent_threads;
    use tokio::{
        net::{TcpListener, TcpStream},
        sync::Semaphore,
    };
    use tokio_util::task::TaskTracker;
    use tower::service_fn;

    use super::*;
    use crate::{
        access::guard::Guard,
        door::{calls::Calls, grpc::status},
        runtime::metrics::KindLabel,
    };

    const QUESTION: &str = "/plimsoll.v1.Predictor/Predict";
    const NEVER: &str = "/plimsoll.v1.Predictor/ShouldRetry";

    /// Tells the name of the thread on which it runs, or never answers.
    async fn whereabouts(request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        if request.uri().path() == NEVER {
            std::future::pending::<()>().await;
        }
        let mut answer = http::Response::new(Body::empty());
        let thread = std::thread::current().name().unwrap_or_default().parse().unwrap();
        answer.headers_mut().insert("thread", thread);
        Ok(answer)
    }

    async fn connect(address: std::net::SocketAddr, tasks: &TaskTracker) -> SendRequest<Body> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        drop(tasks.spawn(connection));
        client
    }

    async fn call(client: &mut SendRequest<Body>, path: &str) -> http::HeaderMap {
        let request = http::Request::post(format!("http://host{path}"))
            .header("grpc-timeout", "50m")
            .header("content-type", "application/grpc");
        client.send_request(request.body(Body::empty()).unwrap()).await.unwrap().into_parts().0.headers
    }

    fn is_on_agents(answer: &http::HeaderMap) -> bool {
        answer["thread"] == "agents"
    }

    #[tokio::test]
    async fn only_agent_streams_run_on_agent_threads() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let (stopping, metrics, threads) =
            (CancellationToken::new(), Arc::new(Metrics::new()), agent_threads().unwrap());
        let listener = Listener { tcp, tls: None };
        let policy = policy(8, threads.handle().clone(), &metrics);
        let gate = Gate {
            services: service_fn(whereabouts),
            calls: Calls::default(),
            guard: Guard::open(None, Arc::clone(&metrics)).unwrap(),
            metrics: Arc::clone(&metrics),
            message_within: policy.bounds.body,
            reflections: Arc::new(Semaphore::new(1)),
        };
        let serving = serve(listener, policy, gate, stopping.clone());
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
            let late = KindLabel::of(status::name(tonic::Code::DeadlineExceeded));
            assert_eq!(metrics.calls_failed.get_or_create(&late).get(), 1);
            // either kind ends with the server, although their clients would stay
            stopping.cancel();
            tasks.close();
            tasks.wait().await;
            drop((agent, other));
        };
        tokio::join!(serving, clients);
        threads.shutdown_background();
    }
}
