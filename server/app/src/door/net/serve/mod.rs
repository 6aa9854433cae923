//! Serves the connections of a listener, from the first byte to the last: what a client may send,
//! how long it may take, and what happens to a client that exceeds a limit. Each listener has a
//! [`Policy`]. How requests are answered is not decided here.
//!
//! | the client | over HTTP | over gRPC |
//! |---|---|---|
//! | exceeds the limit of connections | another connection is closed for it ([`accept`](super::accept)) | the same |
//! | does not finish the TLS handshake within 5 s | its connection is closed | the same |
//! | begins with HTTP/1 | is served | an answer that names the address of the HTTP listener |
//! | does not send the HTTP/2 preface in time, without TLS | | its connection is closed |
//! | does not send the head of a request in time, whatever else it sends | 408 if it had begun its first request, without TLS; its connection is closed |
//! | sends a head that is too large | 431, or 414 if the first line alone is too large | the call ends |
//! | speaks another HTTP version than its handshake agreed on | 400, or its connection is closed | its connection is closed |
//! | sends what is not HTTP | 400 | its connection is closed |
//! | has no request for too long | its connection is closed | the same |
//! | does not send the whole body of a request in time | an error, and its connection is closed | the call ends |
//! | reads nothing of its answers for too long, whatever else it sends | its connection is closed | the same |
//! | sends HTTP/2 frames without messages without end | its connection is closed ([`h2_abuse`](super::h2_abuse)) | the same |
//! | sends only requests that are refused, or probes | its connection is closed, as if it sent no head | the same |
//! | connects when the process can open no more files | its answer, when it is its turn; its connection is closed after 1 s | waits |
//! | connects repeatedly without an admitted request, when half of the slots are taken | has at most a quarter of the slots: its oldest connection is closed | the same |
//!
//! [`BodyTimeout`](super::body_timeout) limits the time of bodies; their size is limited where they
//! are read. What is left of a body is dropped when the connection closes ([`disconnect`]). Answers that may take hours are sent without hyper's buffers ([`long_answer`]).

mod disconnect;
mod long_answer;
mod opening;
mod speaking;
mod stray_http;
#[cfg(test)]
mod tests;
mod threads;

use std::{
    convert::Infallible,
    error::Error,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::body::Bytes;
use disconnect::Disconnect;
use http_body::Body;
use hyper::{Request, Response, body::Incoming};
pub(crate) use long_answer::LongAnswer;
use opening::{FirstBytes, Handshake, HttpVersion};
use prometheus_client::metrics::{counter::Counter, family::Family};
pub(crate) use threads::OwnThreads;
use threads::Threads;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::accept::{Acceptor, Connection, ConnectionCounts, ConnectionRequests, Listener, SpareFiles};
use crate::runtime::metrics::KindLabel;

/// Most clients in a TLS handshake at once; others wait in the kernel's queue. Each holds a slot of
/// the listener and some KiB. There are enough that silent clients do not hold up others.
const MAX_HANDSHAKES: usize = 4096;
/// Longest time of a connection in the place of a spare file: all others wait for its end.
const SPARE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a refused client may take to read the answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How long a client may take to send the rest of a refused body, before it reads the answer.
const REST_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take for either of these ([`CLOSE_WITHIN`], [`REST_WITHIN`]) once the server stops.
const STOP_WITHIN: Duration = Duration::from_millis(200);

type BoxError = Box<dyn Error + Send + Sync>;

/// How a listener serves its connections.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) bounds: Bounds,
    pub(crate) protocol: Protocol,
    /// Most concurrent requests on one HTTP/2 connection.
    pub(crate) streams: u32,
    pub(crate) counts: ConnectionCounts,
    /// Counts connections that the server closed, by kind.
    pub(crate) cut: Family<KindLabel, Counter>,
}

/// Limits of a listener: its connections, and how long clients may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most connections at once.
    pub(crate) connections: usize,
    /// Time from the beginning of the connection, or the end of an answer of HTTP/1, to the end of
    /// the head of the next admitted request.
    pub(crate) head: Duration,
    /// Time from the head of a request to the end of its body.
    pub(crate) body: Duration,
    /// Time without a request, or without progress of an answer.
    pub(crate) idle: Duration,
}

/// The protocol of a listener.
#[derive(Debug, Clone)]
pub(crate) enum Protocol {
    /// HTTP/1 and HTTP/2. Requests are short, so they may finish when the time of their connection
    /// is over. A client whose connection is closed is counted, and gets an answer with the reason.
    Http,
    /// HTTP/2 only. Calls may last as long as a build, so they end when the time of their
    /// connection is over.
    Grpc {
        /// Time from the beginning of a connection without TLS to the end of the HTTP/2 preface. With TLS, [`Bounds::head`] counts.
        preface: Duration,
        own: OwnThreads,
    },
}

/// The client of a connection. Each of its requests carries it as an extension.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// This machine's address of the connection; `None` if the connection is closed.
    pub(crate) local: Option<IpAddr>,
    /// DNS names in the client's certificate.
    pub(crate) names: Arc<[String]>,
    pub(crate) requests: ConnectionRequests,
}

/// What all connections of a listener share.
#[derive(Debug)]
struct Server<F> {
    policy: Policy,
    answer: F,
    stopping: CancellationToken,
}

/// Serves until `stopping`, then lets running requests finish. A request begins when `answer` is
/// called, and carries its [`Peer`] as an extension.
pub(crate) async fn serve<F, A, B>(
    Listener { tcp, tls }: Listener,
    policy: Policy,
    answer: F,
    stopping: CancellationToken,
) where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (spare, own) = match &policy.protocol {
        Protocol::Http => (SpareFiles::open_files(), None),
        Protocol::Grpc { own, .. } => (SpareFiles::none(), Some(own.clone())),
    };
    let mut acceptor = Acceptor::new(tcp, policy.bounds.connections, policy.counts.clone(), spare);
    let server = Arc::new(Server { policy, answer, stopping: stopping.clone() });
    let (handshakes, connections) = (Arc::new(Semaphore::new(MAX_HANDSHAKES)), TaskTracker::new());
    loop {
        let next = async { (Arc::clone(&handshakes).acquire_owned().await.ok(), acceptor.next().await) };
        let Some((place, connection)) = stopping.run_until_cancelled(next).await else { break };
        let threads = Threads::of(own.as_ref());
        let handshake = tls.as_ref().map(|tls| Handshake { acceptor: tls.acceptor(), _place: place });
        let bound = connection.is_borrowed().then_some(SPARE_CONNECTION_TIMEOUT);
        // boxed early, so that the large future is not copied into several tasks
        let requests = connection.requests.clone();
        let conversing = Box::pin(converse(Arc::clone(&server), connection, handshake, threads.clone()));
        let serving = threads.run(within(bound, conversing), requests.clone(), connections.clone());
        requests.served_by(connections.spawn(serving).abort_handle());
    }
    // no more connections are accepted
    drop(acceptor);
    connections.close();
    connections.wait().await;
}

/// Serves a connection to its end, or for at most this time.
async fn within(time: Option<Duration>, conversing: impl Future<Output = ()>) {
    match time {
        Some(time) => drop(timeout(time, conversing).await),
        None => conversing.await,
    }
}

/// Serves one connection from its first byte to its last.
async fn converse<F, A, B>(
    server: Arc<Server<F>>,
    mut connection: Connection,
    handshake: Option<Handshake>,
    threads: Threads,
) where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let Server { policy, stopping, .. } = &*server;
    let (address, local) = (connection.peer, connection.local_address());
    let opening = opening::open(&mut connection.stream, address, handshake, policy);
    let last = match stopping.run_until_cancelled(opening).await {
        Some(Ok(FirstBytes::Opened(opened))) => {
            let (names, version) = (Arc::clone(&opened.names), opened.version);
            let peer = Peer { address, local, names, requests: connection.requests.clone() };
            match speaking::serve_opened(*opened, peer, &server, threads).await {
                Err(cut) => {
                    policy.report(&cut, address);
                    if version == HttpVersion::Http2 {
                        return;
                    }
                    cut.answer
                }
                Ok(()) if version == HttpVersion::Http1 && connection.requests.has_left_body() => "",
                Ok(()) => return,
            }
        }
        Some(Ok(FirstBytes::Stray(answer))) => answer,
        Some(Err(cut)) => {
            policy.report(&cut, address);
            cut.answer
        }
        Some(Ok(FirstBytes::Gone)) | None => return,
    };
    if policy.is_grpc() && last.is_empty() {
        return;
    }
    let within = if connection.requests.has_left_body() { REST_WITHIN } else { CLOSE_WITHIN };
    tokio::select! {
        () = disconnect::close(&mut connection.stream, last, within) => {}
        () = async { stopping.cancelled().await; sleep(STOP_WITHIN).await } => {}
    }
}

impl Policy {
    fn is_grpc(&self) -> bool {
        matches!(self.protocol, Protocol::Grpc { .. })
    }

    /// Counts and logs that the server closed a connection.
    fn report(&self, Disconnect { kind: why, error, .. }: &Disconnect, peer: SocketAddr) {
        if self.is_grpc() {
            tracing::debug!(%peer, why, error, "a connection ended before its time");
        } else {
            self.cut.get_or_create(&KindLabel::of(why)).inc();
            tracing::info!(%peer, why, error, "cut an HTTP connection off");
        }
    }
}
