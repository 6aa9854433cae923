//! The connections of a listener, from their first byte to their last: what a client may send, how long it may take, and what becomes of
//! one that goes beyond it. Each listener has a [`Policy`]; what requests are answered with is none of this module's business.
//!
//! | the client | over HTTP | over gRPC |
//! |---|---|---|
//! | is one too many | its connection closed at once | the same |
//! | does not shake hands within 5 s | its connection closed | the same |
//! | begins with HTTP/1 | is served | an answer that says where HTTP is served |
//! | does not send the preface of HTTP/2 in time | | its connection closed |
//! | does not send the head of a request in time, whatever else it sends | 408 if it had begun to, and its connection closed | its connection closed |
//! | sends a head that is too large | 431 | the call ends |
//! | sends what is no HTTP | 400 | its connection closed |
//! | moves no byte for too long, or has no request for so long | its connection closed | the same |
//! | takes nothing of its answers for so long, whatever else it sends | its connection closed | the same |
//! | sends frames of HTTP/2 without end that carry nothing | its connection closed ([`h2_abuse`](super::h2_abuse)) | the same |
//! | asks for what it may not have, or for nothing but probes | its connection closed, as late as without a head | the same |
//! | comes when the process may open no more files | its answer, when it is its turn; its connection closed after 1 s | waits |
//! | connects again and again and is let in nowhere, when half of the places are taken | a quarter of them, no more | the same |
//!
//! Bodies are bounded where they are read; what a handler leaves of one is thrown away ([`leftover`]).

mod disconnect;
mod leftover;
mod link;
mod stray_http;
#[cfg(test)]
mod tests;
mod threads;

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use disconnect::Disconnect;
use http_body::Body;
use hyper::{Request, Response};
pub(crate) use leftover::ClientBody;
use leftover::Leftovers;
use link::{Handshake, Link, Opening};
use prometheus_client::metrics::{counter::Counter, family::Family};
pub(crate) use threads::OwnThreads;
use threads::Threads;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    accept::{Acceptor, Connection, Counts, Listener, Requests, SpareFile},
    idle::IdleTimeoutStream,
};
use crate::runtime::metrics::Kind;

/// Clients that may shake hands at once; others wait in the kernel's queue. Each holds one of the listener's places, and some KiB:
/// enough that silent clients do not hold up others.
const HANDSHAKES: usize = 4096;
/// A connection that was taken although the process may open no more files is cut off after as long: others wait for its end.
const BORROWED_FOR: Duration = Duration::from_secs(1);

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
    /// Without a byte in either direction, or without a request.
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
    F: Fn(Request<ClientBody>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
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
        let conversing = converse(Arc::clone(&server), connection, handshake, threads.clone());
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
    connection: Connection,
    handshake: Option<Handshake>,
    threads: Threads,
) where
    F: Fn(Request<ClientBody>) -> A,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let Server { policy, stopping, .. } = &*server;
    let (peer, is_plain) = (connection.peer, handshake.is_none());
    let requests = connection.requests.clone();
    let client = Peer { address: peer, local: connection.local(), names: Arc::default(), requests };
    let (leftovers, drain) = Leftovers::new();
    let (lent, returned) = IdleTimeoutStream::new(
        connection,
        policy.preface().unwrap_or(policy.bounds.head),
        policy.bounds.idle,
    );
    let opening = Link::open(lent, client, handshake, policy.preface());
    let ended = match stopping.run_until_cancelled(opening).await {
        Some(Ok(Opening::Link(link))) => {
            let ended = link.speak(&server, threads, (leftovers.clone(), drain)).await;
            ended.map(|()| leftovers.is_cut_short().then_some(""))
        }
        Some(Ok(Opening::Stray(answer))) => Ok(Some(answer)),
        Some(Err(cut)) => Err(cut),
        Some(Ok(Opening::Gone)) | None => Ok(None),
    };
    // an aborted task lends nothing back
    let Ok(returned) = returned.await else { return };
    let last = match ended {
        Ok(last) => last,
        // a client that kept its connection open and asked for nothing more did nothing wrong
        Err(Disconnect { why: "slow", .. }) if !returned.asking => None,
        Err(cut) => policy.report(&cut, peer).then_some(cut.answer(is_plain)),
    };
    if let Some(last) = last {
        // it may be sending still, and must be able to read its answer
        returned.close(last.as_bytes()).await;
    }
}

impl Policy {
    fn preface(&self) -> Option<Duration> {
        match self.protocol {
            Protocol::Http => None,
            Protocol::Grpc { preface, .. } => Some(preface),
        }
    }

    /// Writes down that a connection was cut off. Says whether its client gets an answer.
    fn report(&self, Disconnect { why, error }: &Disconnect, peer: SocketAddr) -> bool {
        let is_http = matches!(self.protocol, Protocol::Http);
        if is_http {
            self.cut.get_or_create(&Kind::of(why)).inc();
            tracing::info!(%peer, why, error, "cut an HTTP connection off");
        } else {
            tracing::debug!(%peer, why, error, "a connection ended before its time");
        }
        is_http
    }
}
