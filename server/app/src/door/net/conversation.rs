//! Serves one connection from its first byte to its last.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http_body::Body;
use hyper::{
    Request, Response, Version,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::{
    BoxError, Peer, Policy, Server,
    bodies::{PIECE_BYTES, WAITING_PIECES},
    bounds::ConnectionRequests,
    client_io::{ClientIo, Transport},
    places::Place,
    threads::Threads,
};
use crate::runtime::{
    audit::AUDIT,
    metrics::KindLabel,
    tls::{Expiry, expiry, names},
};

/// Most clients of a listener in a TLS handshake at once, each with some KiB: so many that silent ones do not hold up others.
pub(super) const MAX_HANDSHAKES: usize = 4096;
/// Time limit for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// An HTTP/2 client that does not answer a ping for this long counts as disconnected.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Largest head of an HTTP/1 request. The longest first line that Spack sends has 844 bytes.
const HEAD_BYTES: usize = 64 * 1024;
/// The same on the port for gRPC, where HTTP/1 is refused: the least that hyper takes (`MINIMUM_MAX_BUFFER_SIZE` in `proto/h1/io.rs` of hyper 1).
const REFUSED_HEAD_BYTES: usize = 8 * 1024;
/// Most bytes of the headers of an HTTP/2 request. The longest header of a gRPC client is a token of a few KiB.
const HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Most calls of a connection that the client canceled before they were handled (CVE-2023-44487): h2's default, set so that another release does
/// not change it.
const MAX_PENDING_RESETS: usize = 20;
/// Most calls of a connection that the server canceled because the client broke rules (CVE-2025-8671). A correct client causes none.
const MAX_SERVER_RESETS: usize = 256;
/// Bytes of an answer that wait in HTTP/2 for a client.
const SEND_BUFFER_BYTES: usize = WAITING_PIECES * PIECE_BYTES;

/// What the client of a closed connection did wrong: the kind in metrics, and the error for the log.
pub(super) struct Cut(&'static str, String);

/// Counts a connection while it is open.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(open: Gauge) -> Self {
        open.inc();
        Self(open)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A client that has connected, and what its TLS handshake needs.
pub(super) type Client = (TcpStream, SocketAddr, Place, Option<TlsAcceptor>);

/// Serves the connection of a client until it ends, or another one gets its place.
pub(super) async fn converse<F, A, B>(
    server: Arc<Server<F>>,
    (stream, address, place, tls): Client,
    threads: Threads,
) where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // the place is given back here, although handlers may still hold the requests
    let (policy, requests) = (&server.policy, ConnectionRequests::new(&place));
    let _open = OpenConnection::new(policy.open.clone());
    let ended = tokio::select! {
        () = requests.replaced() => Ok(()),
        ended = speak(&server, (stream, address, tls), requests.clone(), threads) => ended,
    };
    match ended {
        Ok(()) => {}
        Err(Cut(why, error)) if policy.grpc.is_some() => {
            tracing::debug!(peer = %address, why, error, "a connection ended before its time");
        }
        Err(Cut(why, error)) => {
            policy.cut.get_or_create(&KindLabel::of(why)).inc();
            tracing::info!(peer = %address, why, error, "cut an HTTP connection off");
        }
    }
}

async fn speak<F, A, B>(
    server: &Server<F>,
    (stream, address, tls): (TcpStream, SocketAddr, Option<TlsAcceptor>),
    requests: ConnectionRequests,
    threads: Threads,
) -> Result<(), Cut>
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // without this, small answers wait up to 40 ms for the delayed acknowledgement of the one before; fails if the client is gone
    if stream.set_nodelay(true).is_err() {
        return Ok(());
    }
    let local = stream.local_addr().ok().map(|local| local.ip());
    let opening = open(stream, tls, &server.handshakes);
    match server.stopping.run_until_cancelled(opening).await.transpose()?.flatten() {
        Some((io, names, certificate)) => {
            let peer = Peer { address, local, names, requests };
            serve_opened(server, (io, certificate), peer, threads).await
        }
        None => Ok(()),
    }
}

/// Serves until the client leaves or sends no request for too long, the server stops, or the client's certificate expires.
pub(super) async fn serve_opened<F, A, B>(
    Server { policy, answer, stopping, .. }: &Server<F>,
    (io, mut certificate): (Transport, Option<Expiry>),
    peer: Peer,
    threads: Threads,
) -> Result<(), Cut>
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (is_grpc, bounds, requests) = (policy.grpc.is_some(), &policy.bounds, peer.requests.clone());
    let io = TokioIo::new(ClientIo::new(io, requests.clone(), !is_grpc));
    let (executor, address) = (threads.clone(), peer.address);
    let service = service_fn(move |mut request: Request<Incoming>| {
        threads.begin(request.uri().path());
        peer.requests.mark_asked();
        if is_grpc && request.version() != Version::HTTP_2 {
            note_http1(&peer, request.body());
        }
        request.extensions_mut().insert(peer.clone());
        answer(request)
    });
    let mut connection = Box::pin(builder(policy, executor).serve_connection(io, service).into_owned());
    tokio::select! {
        biased;
        () = requests.unused(bounds) => match requests.are_unread() {
            true => return Err(unread()),
            false if !requests.have_begun() => return Ok(()),
            false if is_grpc || !requests.were_asked() => {
                return Err(Cut("slow", "no request for too long".to_owned()));
            }
            false => {}
        },
        ended = connection.as_mut() => return ended.or_else(|error| found_in(&error)),
        () = until_over(certificate.as_mut()) => if is_grpc {
            // all calls end with the certificate; the client may reconnect with another one
            tracing::warn!(target: AUDIT, %address, "ended a connection: the client's certificate has expired");
            return Ok(());
        },
        () = stopping.cancelled() => {}
    }
    requests.mark_closing();
    connection.as_mut().graceful_shutdown();
    // running requests may finish, as long as the client reads the answers
    tokio::select! {
        ended = connection => ended.or_else(|error| found_in(&error)),
        () = requests.stalled(bounds.idle) => if requests.are_unread() { Err(unread()) } else { Ok(()) },
    }
}

/// What a TLS handshake gives: the bytes within it, the DNS names in the client's certificate, and when that expires.
type Opened = (Transport, Arc<[String]>, Option<Expiry>);

/// Does the TLS handshake, if there is one; `None` if the client has left.
async fn open(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handshakes: &Semaphore,
) -> Result<Option<Opened>, Cut> {
    let Some(tls) = tls else { return Ok(Some((Either::Left(stream), Arc::default(), None))) };
    let _place = handshakes.acquire().await.ok();
    match timeout(HANDSHAKE_WITHIN, Box::pin(tls.accept(stream))).await {
        Ok(Ok(stream)) => {
            let (names, expiry) = (names(stream.get_ref().1), expiry(stream.get_ref().1));
            Ok(Some((Either::Right(Box::new(stream)), names, expiry)))
        }
        // load balancers connect like this to check whether the port is open
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Ok(Err(error)) => Err(Cut("handshake", error.to_string())),
        Err(_slow) => Err(Cut("handshake", "it took too long".to_owned())),
    }
}

/// A client of HTTP/1 on the port for gRPC is refused. It must be able to read why, also while it sends a body.
fn note_http1(peer: &Peer, body: &Incoming) {
    tracing::info!(peer = %peer.address, "HTTP/1 came to the port for gRPC");
    if !body.is_end_stream() {
        peer.requests.mark_left_body();
    }
}

/// Completes when the client's certificate has expired.
async fn until_over(certificate: Option<&mut Expiry>) {
    match certificate {
        Some(certificate) => certificate.over().await,
        None => std::future::pending().await,
    }
}

fn builder(policy: &Policy, executor: Threads) -> auto::Builder<Threads> {
    let mut builder = auto::Builder::new(executor);
    // the bounds know whether a connection is used
    let head = if policy.grpc.is_some() { REFUSED_HEAD_BYTES } else { HEAD_BYTES };
    builder.http1().header_read_timeout(None).max_buf_size(head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(policy.streams)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_SERVER_RESETS)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}

fn unread() -> Cut {
    Cut("unread", "nothing of its answers was taken for too long".to_owned())
}

/// What the client did wrong, if that ended the connection; else the error is only logged.
fn found_in(error: &BoxError) -> Result<(), Cut> {
    match error.downcast_ref::<hyper::Error>() {
        Some(parse) if parse.is_parse_too_large() => Err(Cut("too_large", error.to_string())),
        Some(parse) if parse.is_parse() => Err(Cut("malformed", error.to_string())),
        _ => {
            tracing::debug!(%error, "a connection ended before its time");
            Ok(())
        }
    }
}
