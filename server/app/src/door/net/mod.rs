//! Serves the connections of a listener with the libraries for it: hyper-util speaks HTTP/1 and HTTP/2, tokio-rustls TLS. How requests are
//! answered is not decided here.
//!
//! | the client | what happens | by |
//! |---|---|---|
//! | exceeds the limit of connections | another connection is closed for it | [`places`] |
//! | begins a TLS handshake while 4,096 others are in theirs | it waits for one of them | [`conversation`] |
//! | does not finish the TLS handshake within 5 s | its connection is closed | [`conversation`] |
//! | sends no request, or only requests that are refused, or reads no answer, for too long | its connection is closed, whatever else it sends; over HTTP/2 it may answer the shutdown first | [`bounds`] |
//! | does not send the whole body of a request in time | an error, and its connection is closed | [`BodyDeadline`] |
//! | sends a head that is too large, or no HTTP | 431 or 400; over HTTP/2 the call ends | hyper, h2 |
//! | resets its calls, or makes the server reset them, again and again | its connection is closed | h2 |
//! | answers no ping for 20 s | its connection is closed | h2 |
//! | connects when the process can open no more files | over HTTP it is served for 1 s, one at a time | [`serve`] |

mod bodies;
mod bounds;
mod client_io;
mod conversation;
mod places;
#[cfg(test)]
mod tests;
mod threads;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

pub(crate) use bodies::{BodyDeadline, SentBody};
use bounds::ConnectionRequests;
pub(crate) use bounds::{Bounds, RunningRequest};
use conversation::{MAX_HANDSHAKES, converse};
use http_body::Body;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
};
use places::Places;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use rustix::io::Errno;
pub(crate) use threads::OwnThreads;
use threads::Threads;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::runtime::{metrics::KindLabel, open_files, tls::Tls};

/// Longest time of a connection in the place of the spare file: all others wait for its end.
const SPARE_WITHIN: Duration = Duration::from_secs(1);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A bound address. If it has a certificate, only TLS connections are served.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Tls>,
}

impl Listener {
    /// Another handle of the same address: each connection is accepted by one of them.
    /// Errors: the system gives no further file.
    pub(crate) fn share(&self) -> io::Result<Self> {
        let tcp = std::net::TcpListener::from(self.tcp.as_fd().try_clone_to_owned()?);
        Ok(Self { tcp: TcpListener::from_std(tcp)?, tls: self.tls.clone() })
    }
}

/// How a listener serves its connections.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) bounds: Bounds,
    /// Most concurrent requests on one HTTP/2 connection.
    pub(crate) streams: u32,
    /// For gRPC: the threads of long calls. Calls may last as long as a build, so they end when the time of their connection is over; the short
    /// requests of HTTP may finish.
    pub(crate) grpc: Option<OwnThreads>,
    /// Open connections. Listeners may share the metrics.
    pub(crate) open: Gauge,
    /// Connections that were closed for newer ones, because the limit was reached.
    pub(crate) replaced: Counter,
    /// Connections that the server closed, by kind; not counted for gRPC.
    pub(crate) cut: Family<KindLabel, Counter>,
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
struct Server<F> {
    policy: Policy,
    answer: F,
    stopping: CancellationToken,
    handshakes: Semaphore,
}

/// Serves until `stopping`, then lets running requests finish. A request begins when `answer` is called, and carries its [`Peer`] as an extension.
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
    let spare_file = || tcp.as_fd().try_clone_to_owned().ok().filter(|_| policy.grpc.is_none());
    let (places, connections) = (Places::new(policy.bounds.connections), TaskTracker::new());
    let handshakes = Semaphore::new(MAX_HANDSHAKES);
    let server = Server { policy: policy.clone(), answer, stopping: stopping.clone(), handshakes };
    let server = Arc::new(server);
    let mut spare = spare_file();
    loop {
        let next = async {
            let (stream, address) = accept(&tcp, &mut spare, spare_file).await;
            (stream, address, places.take(address.ip()).await)
        };
        let Some((stream, address, (place, replaced))) = stopping.run_until_cancelled(next).await else {
            break;
        };
        policy.replaced.inc_by(replaced.into());
        let threads = Threads::new(policy.grpc.clone());
        let client = (stream, address, place, tls.as_ref().map(Tls::acceptor));
        // boxed early, so that the large future is not copied into several tasks
        let conversing = Box::pin(converse(Arc::clone(&server), client, threads.clone()));
        if spare.is_none() && policy.grpc.is_none() {
            // the process can open no more files, so that all others wait for this one
            drop(timeout(SPARE_WITHIN, conversing).await);
            spare = spare_file();
        } else {
            drop(connections.spawn(threads.run(conversing, connections.clone())));
        }
    }
    // no more connections are accepted: the spare file is the same socket
    drop((tcp, spare));
    connections.close();
    connections.wait().await;
}

/// Accepts a connection. If the process can open no more files, the spare one is closed for it. Another part of the process may take its place,
/// so it is opened again after each pause.
async fn accept(
    tcp: &TcpListener,
    spare: &mut Option<OwnedFd>,
    spare_file: impl Fn() -> Option<OwnedFd>,
) -> (TcpStream, SocketAddr) {
    loop {
        let error = match tcp.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        let is_short = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
        if !is_short || spare.take().is_none() {
            open_files::after_failed_accept(&error).await;
            *spare = spare.take().or_else(&spare_file);
        }
    }
}
