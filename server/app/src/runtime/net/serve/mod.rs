//! The connections of a listener, from their first byte to their last: what a client may send, how long it may take, and what becomes of
//! one that goes beyond it. Each listener has a [`Policy`]; what requests are answered with is none of this module's business.
//!
//! | the client | over HTTP | over gRPC |
//! |---|---|---|
//! | is one too many | its connection closed at once | the same |
//! | does not shake hands within 5 s | its connection closed | the same |
//! | begins with HTTP/1 | is served | an answer that says where HTTP is served |
//! | does not send the preface of HTTP/2 in time | | its connection closed |
//! | does not send the head of a request in time, whatever else it sends | 408 if it had begun its first one, without TLS; its connection closed | its connection closed |
//! | sends a head that is too large | 431, or 414 if its first line alone is | the call ends |
//! | speaks another HTTP than its handshake agreed on | 400, or its connection closed | its connection closed |
//! | sends what is no HTTP | 400 | its connection closed |
//! | has no request for too long | its connection closed | the same |
//! | does not send the whole body of a request in time | an error, and its connection closed | the call ends |
//! | takes nothing of its answers for so long, whatever else it sends | its connection closed | the same |
//! | sends frames of HTTP/2 without end that carry nothing | its connection closed ([`h2_abuse`](super::h2_abuse)) | the same |
//! | asks for what it may not have, or for nothing but probes | its connection closed, as late as without a head | the same |
//! | comes when the process may open no more files | its answer, when it is its turn; its connection closed after 1 s | waits |
//! | connects again and again and is let in nowhere, when half of the places are taken | a quarter of them, no more | the same |
//!
//! Bodies are bounded in time by [`BodyTimeout`](super::body_timeout), in bytes where they are read. What is left of one is thrown away
//! when the connection closes ([`disconnect`]).

mod disconnect;
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

use disconnect::Disconnect;
use http_body::Body;
use hyper::{Request, Response, body::Incoming};
use opening::{Handshake, Opening, Version};
use prometheus_client::metrics::{counter::Counter, family::Family};
pub(crate) use threads::OwnThreads;
use threads::Threads;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::accept::{Acceptor, Connection, Counts, Listener, Requests, SpareFile};
use crate::runtime::metrics::Kind;

/// Clients that may shake hands at once; others wait in the kernel's queue. Each holds one of the listener's places, and some KiB:
/// enough that silent clients do not hold up others.
const HANDSHAKES: usize = 4096;
/// A connection that was taken although the process may open no more files is cut off after as long: others wait for its end.
const BORROWED_FOR: Duration = Duration::from_secs(1);
/// How long a client that is refused may take to read why.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How long a client may take to send the rest of a body that was refused half-way, before it reads why.
const REST_WITHIN: Duration = Duration::from_secs(10);
/// The same once the server stops.
const STOP_WITHIN: Duration = Duration::from_millis(200);

type BoxError = Box<dyn Error + Send + Sync>;

/// How a listener serves its connections.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) bounds: Bounds,
    pub(crate) protocol: Protocol,
    /// Requests at once on one connection of HTTP/2.
    pub(crate) streams: u32,
    pub(crate) counts: Counts,
    /// Connections that were cut off, by kind.
    pub(crate) cut: Family<Kind, Counter>,
}

/// What a listener may hold, and how long its clients may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections at once.
    pub(crate) connections: usize,
    /// From the connection's beginning, or one answer of HTTP/1, to the end of the head of the next request that is let in.
    pub(crate) head: Duration,
    /// From the head of a request to the end of its body.
    pub(crate) body: Duration,
    /// Without a request, or without progress of an answer.
    pub(crate) idle: Duration,
}

/// What is spoken on a listener.
#[derive(Debug, Clone)]
pub(crate) enum Protocol {
    /// HTTP/1 and HTTP/2. Requests are short: they come to their end when the time of their connection is over. A client that is cut off is
    /// counted, and told why.
    Http,
    /// HTTP/2 alone. Calls may last as long as a build: they end with the time of their connection.
    Grpc {
        /// From the connection's beginning to the end of the preface of HTTP/2.
        preface: Duration,
        own: OwnThreads,
    },
}

/// Who is at the other end of a connection, beside each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// This machine's address of the connection; `None` if it is gone.
    pub(crate) local: Option<IpAddr>,
    /// DNS names in the certificate that it has shown.
    pub(crate) names: Arc<[String]>,
    pub(crate) requests: Requests,
}

/// What every connection of a listener shares.
#[derive(Debug)]
struct Server<F> {
    policy: Policy,
    answer: F,
    stopping: CancellationToken,
}

/// Serves until `stopping`, then lets running requests end. A request begins when `answer` is called, and has its [`Peer`] beside it.
pub(crate) async fn serve<F, A, B>(
    Listener { tcp, tls }: Listener,
    policy: Policy,
    answer: F,
    stopping: CancellationToken,
) where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let (spare, own) = match &policy.protocol {
        Protocol::Http => (SpareFile::keep(), None),
        Protocol::Grpc { own, .. } => (SpareFile::none(), Some(own.clone())),
    };
    let mut acceptor = Acceptor::new(tcp, policy.bounds.connections, policy.counts.clone(), spare);
    let server = Arc::new(Server { policy, answer, stopping: stopping.clone() });
    let (handshakes, connections) = (Arc::new(Semaphore::new(HANDSHAKES)), TaskTracker::new());
    loop {
        let next = async { (Arc::clone(&handshakes).acquire_owned().await.ok(), acceptor.next().await) };
        let Some((place, connection)) = stopping.run_until_cancelled(next).await else { break };
        let threads = Threads::of(own.as_ref());
        let handshake = tls.as_ref().map(|tls| Handshake { acceptor: tls.acceptor(), _place: place });
        let bound = connection.is_borrowed().then_some(BORROWED_FOR);
        // in a box before anything has room for it more than once
        let conversing = Box::pin(converse(Arc::clone(&server), connection, handshake, threads.clone()));
        connections.spawn(threads.run(within(bound, conversing), connections.clone()));
    }
    // nothing new is taken any more
    drop(acceptor);
    connections.close();
    connections.wait().await;
}

/// Serves a connection to its end, or cuts it off after this time.
async fn within(time: Option<Duration>, conversing: impl Future<Output = ()>) {
    match time {
        Some(time) => drop(timeout(time, conversing).await),
        None => conversing.await,
    }
}

/// One connection from its first byte to its last.
async fn converse<F, A, B>(
    server: Arc<Server<F>>,
    mut connection: Connection,
    handshake: Option<Handshake>,
    threads: Threads,
) where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let Server { policy, stopping, .. } = &*server;
    let (address, local) = (connection.peer, connection.local());
    let opening = opening::open(&mut connection.stream, address, handshake, policy);
    let last = match stopping.run_until_cancelled(opening).await {
        Some(Ok(Opening::Opened(opened))) => {
            let (names, version) = (Arc::clone(&opened.names), opened.version);
            let peer = Peer { address, local, names, requests: connection.requests.clone() };
            match speaking::speak(*opened, peer, &server, threads).await {
                Err(cut) => {
                    policy.report(&cut, address);
                    if version == Version::Http2 {
                        return;
                    }
                    cut.answer
                }
                Ok(()) if version == Version::Http1 && connection.requests.has_left_body() => "",
                Ok(()) => return,
            }
        }
        Some(Ok(Opening::Stray(answer))) => answer,
        Some(Err(cut)) => {
            policy.report(&cut, address);
            cut.answer
        }
        Some(Ok(Opening::Gone)) | None => return,
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

    /// Comes when the client has not sent the preface of HTTP/2 in time, where nothing else is spoken.
    async fn no_preface(&self, requests: &Requests) {
        match self.protocol {
            Protocol::Http => std::future::pending().await,
            Protocol::Grpc { preface, .. } => requests.no_preface(preface).await,
        }
    }

    /// Writes down that a connection was cut off.
    fn report(&self, Disconnect { why, error, .. }: &Disconnect, peer: SocketAddr) {
        if self.is_grpc() {
            tracing::debug!(%peer, why, error, "a connection ended before its time");
        } else {
            self.cut.get_or_create(&Kind::of(why)).inc();
            tracing::info!(%peer, why, error, "cut an HTTP connection off");
        }
    }
}
