//! HTTP/1.1 and HTTP/2 on bounded connections: what a client may send, how long it may take, and what one that goes beyond it
//! is told.
//!
//! | the client | gets |
//! |---|---|
//! | is one too many | its connection closed at once |
//! | does not send the head of a request within 30 s, whatever else it sends | 408 if it had begun to, and its connection closed |
//! | sends a head of more than 64 KiB, or more than 100 headers | 431 |
//! | sends what is no HTTP | 400 |
//! | moves no byte for two minutes, or has no request for so long | its connection closed |
//! | sends frames of HTTP/2 without end that carry nothing | its connection closed |
//! | asks for what it may not have, or for nothing but probes | its connection closed 30 s after it began |
//! | connects again and again and is let in nowhere, when half of the places are taken | a quarter of them, no more |
//!
//! Each of these is one line in the log and one in `plimsoll_http_connections_cut_total`. Bodies are bounded where they are read; what a
//! handler leaves of one is thrown away ([`leftover`](super::leftover)).

use std::{
    convert::Infallible,
    error::Error,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    http::Version,
};
use hyper::{body::Incoming as IncomingBody, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{
    leftover::{Drain, Leftovers},
    wire::Lent,
};
use crate::{
    frames::{CONTROL_FRAMES, Metered},
    incoming::{self, Connection, Counts, Listener, Requests},
    metrics::{Kind, Metrics},
    tls::{Expiry, Tls, expiry, names},
};

/// Largest head of a request: the longest that Spack sends has 844 bytes in its first line.
const HEAD_BYTES: usize = 64 * 1024;
/// Bytes of the headers of one HTTP/2 request.
const HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 128;
/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// An HTTP/2 client that does not answer a ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// What a client hears that does not come to an end with the head of its request.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What a listener may hold, and how long its clients may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections at once.
    pub(crate) connections: usize,
    /// From the connection's beginning, or one answer of HTTP/1.1, to the end of the next request's head.
    pub(crate) head: Duration,
    /// Without a byte in either direction, or without a request.
    pub(crate) idle: Duration,
}

impl Bounds {
    /// For so many connections.
    pub(crate) fn of(connections: usize) -> Self {
        Self { connections, head: Duration::from_secs(30), idle: Duration::from_mins(2) }
    }
}

/// What every connection of a listener shares.
#[derive(Debug)]
struct Shared {
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
}

/// Serves until `stopping`, then lets running requests end.
pub(super) async fn serve(
    Listener { tcp, tls }: Listener,
    router: Router,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
) {
    let counts =
        Counts { open: metrics.http_connections.clone(), refused: metrics.http_connections_refused.clone() };
    let (mut incoming, taking) = incoming::incoming(tcp, bounds.connections, counts);
    let builder = builder(&bounds);
    let shared = Arc::new(Shared { builder, router, bounds, metrics, stopping: stopping.clone() });
    let serving = async move {
        let mut running = JoinSet::new();
        while let Some(Some(Ok(connection))) = stopping.run_until_cancelled(incoming.next()).await {
            let acceptor = tls.as_ref().map(Tls::acceptor);
            running.spawn(converse(Arc::clone(&shared), connection, acceptor));
            while running.try_join_next().is_some() {}
        }
        // nothing new is taken any more
        drop(incoming);
        while running.join_next().await.is_some() {}
    };
    tokio::join!(serving, taking);
}

fn builder(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.head).max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}

/// One connection from its first byte to its last.
async fn converse(shared: Arc<Shared>, connection: Connection, acceptor: Option<TlsAcceptor>) {
    let (peer, requests) = (connection.peer, connection.requests.clone());
    let ends = Ends { peer, local: Local(connection.stream.local_addr().ok().map(|local| local.ip())) };
    let (lent, returned) = Lent::new(connection, shared.bounds.head, shared.bounds.idle);
    let is_plain = acceptor.is_none();
    let (leftovers, drain) = Leftovers::new();
    let rest = (leftovers.clone(), drain);
    let ended = match acceptor {
        None => speak(&shared, lent, (requests, rest), (ends, Names::default(), None)).await,
        Some(acceptor) => match timeout(HANDSHAKE_WITHIN, acceptor.accept(lent)).await {
            Ok(Ok(stream)) => {
                let (names, expiry) = (Names(names(stream.get_ref().1)), expiry(stream.get_ref().1));
                speak(&shared, stream, (requests, rest), (ends, names, expiry)).await
            }
            // looks at whether the port is open, as balancers do
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Ok(Err(error)) => Err(Cut { why: "handshake", error: error.to_string() }),
            Err(_slow) => Err(Cut { why: "handshake", error: "it took too long".to_owned() }),
        },
    };
    // an aborted task lends nothing back
    let Ok(returned) = returned.await else { return };
    match ended {
        // it may be sending still, and must be able to read its answer
        Ok(()) if leftovers.is_cut_short() => returned.close(&[]).await,
        // a client that kept its connection open and asked for nothing more did nothing wrong
        Ok(()) => {}
        Err(Cut { why: "slow", .. }) if !returned.asking => {}
        Err(Cut { why, error }) => {
            shared.metrics.http_connections_cut.get_or_create(&Kind::of(why)).inc();
            tracing::info!(%peer, why, error, "cut an HTTP connection off");
            let last = if is_plain && why == "slow" { TOO_SLOW } else { &[] };
            returned.close(last).await;
        }
    }
}

/// DNS names in the certificate that the client has shown, beside each of its requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(pub(super) Arc<[String]>);

/// This machine's address of the connection, beside each of its requests; `None` if it is gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Local(pub(super) Option<IpAddr>);

/// Between whom a connection is.
#[derive(Debug, Clone, Copy)]
struct Ends {
    peer: SocketAddr,
    local: Local,
}

/// Why a connection was cut off.
struct Cut {
    why: &'static str,
    error: String,
}

/// Serves until the client leaves or has asked for nothing for too long, the server stops, or the certificate that the client has
/// shown ends.
async fn speak<I>(
    shared: &Shared,
    io: I,
    (requests, (leftovers, drain)): (Requests, (Leftovers, Drain)),
    (ends, names, mut expiry): (Ends, Names, Option<Expiry>),
) -> Result<(), Cut>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (router, running) = (&shared.router, requests.clone());
    let service = service_fn(move |request: hyper::Request<IncomingBody>| {
        let is_first = request.version() < Version::HTTP_2;
        let mut request: Request =
            request.map(|body| if is_first { leftovers.lend(body) } else { Body::new(body) });
        request.extensions_mut().insert(ConnectInfo(ends.peer));
        request.extensions_mut().insert(ends.local);
        request.extensions_mut().insert(names.clone());
        request.extensions_mut().insert(running.clone());
        let (mut router, running) = (router.clone(), running.begin());
        async move {
            let _running = running;
            // a router is always ready
            poll_fn(|cx| <Router as tower::Service<Request>>::poll_ready(&mut router, cx)).await?;
            router.call(request).await.map_err(|never: Infallible| never)
        }
    });
    let cut = shared.metrics.http_connections_cut.get_or_create(&Kind::of(CONTROL_FRAMES)).clone();
    let io = TokioIo::new(Metered::new(io, ends.peer, cut));
    let mut connection = pin!(shared.builder.serve_connection(io, service));
    let Bounds { head, idle, .. } = shared.bounds;
    let expired = async {
        match &mut expiry {
            Some(expiry) => expiry.over().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { drain.run().await; std::future::pending().await } => Ok(()),
        () = requests.clone().unused(head, idle) => {
            if !requests.asked() {
                return Err(Cut { why: "slow", error: "no request for too long".to_owned() });
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = async { tokio::select! { () = shared.stopping.cancelled() => {} () = expired => {} } } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.or_else(|error| reason(&*error).map_or(Ok(()), Err))
}

/// What a client did wrong; `None` for one that is simply gone.
fn reason(error: &(dyn Error + 'static)) -> Option<Cut> {
    let mut next = Some(error);
    let mut causes = std::iter::from_fn(|| {
        let cause = next?;
        next = cause.source();
        Some(cause)
    });
    let why = causes.find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            return match () {
                () if error.is_timeout() => Some("slow"),
                () if error.is_parse_too_large() => Some("too_large"),
                () if error.is_parse() => Some("malformed"),
                () => None,
            };
        }
        let error = cause.downcast_ref::<io::Error>()?;
        (error.kind() == io::ErrorKind::TimedOut).then_some("slow")
    });
    why.map(|why| Cut { why, error: error.to_string() })
}

#[cfg(test)]
mod tests;
