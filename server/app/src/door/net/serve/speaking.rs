//! Serves the requests of one connection with hyper, and ends the connection.

use std::{convert::Infallible, io, pin::Pin, time::Duration};

use axum::body::Bytes;
use http_body::Body;
use hyper::{
    Method, Request, Response,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::either::Either;

use super::{
    BoxError, Peer, Policy, Server,
    disconnect::{Disconnect, TOO_SLOW},
    long_answer::{self, BlockedWriteIo, Handover, HandoverFuture},
    opening::{HttpVersion, OpenedConnection},
    threads::Threads,
};
use crate::{
    door::net::h2_abuse::{CONTROL_FRAMES, Metered},
    runtime::{audit::AUDIT, metrics::KindLabel, tls::Expiry},
};

/// An HTTP/2 client that does not answer a ping for this long counts as disconnected.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Largest head of an HTTP/1 request. The longest first line that Spack sends has 844 bytes.
const HEAD_BYTES: usize = 64 * 1024;
/// Most bytes of the headers of an HTTP/2 request. The longest header of a gRPC client is a token
/// of a few KiB.
const HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Most calls of a connection that the client canceled before they were handled. It is the default
/// of h2, set here so that another release of h2 does not change it.
const MAX_PENDING_RESETS: usize = 20;
/// Most calls of a connection that the server canceled because the client broke rules
/// (CVE-2025-8671). A correct client causes none. Set here for the same reason.
const MAX_SERVER_RESETS: usize = 256;

/// Why the time of a connection is over.
enum TimeoutReason {
    Unused,
    Expired,
    Stopping,
}

/// Serves until the client disconnects or sends no request for too long, the server stops, or the
/// client's certificate expires.
///
/// # Errors
/// The client did something wrong; the error describes it.
pub(super) async fn serve_opened<F, A, B>(
    OpenedConnection { io, version, expiry, .. }: OpenedConnection<'_>,
    peer: Peer,
    server: &Server<F>,
    threads: Threads,
) -> Result<(), Disconnect>
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let Server { policy, answer, .. } = server;
    let (executor, client) = (threads.clone(), peer.clone());
    let answering = move |mut request: Request<Incoming>| {
        threads.begin(request.uri().path());
        request.extensions_mut().insert(client.clone());
        answer(request)
    };
    let is_plain = matches!(io, Either::Left(_));
    // boxed, because both futures are large and would be copied several times
    let (ended, has_begun) = if version == HttpVersion::Http1 {
        let handover = Handover::new();
        let (io, own) = (BlockedWriteIo { io, handover: handover.clone() }, handover.clone());
        let service = service_fn(move |request| {
            // a client of HTTP/1.0 knows no chunks, and the answer to a HEAD has none
            let has_chunks = request.version() == hyper::Version::HTTP_11 && request.method() != Method::HEAD;
            long_answer::pass(answering(request), has_chunks.then(|| own.clone()))
        });
        let connection = Box::new(http1(policy).serve_connection(TokioIo::new(io), service));
        let mut handing = HandoverFuture { connection, handover };
        let ended =
            until_over(Pin::new(&mut handing), HandoverFuture::graceful_shutdown, (&peer, expiry), server);
        let ended = ended.await;
        let (io, has_begun, long) = handing.into_parts();
        if let Some(long) = long {
            return until_sent(Box::pin(long_answer::send(io, long, policy.bounds.idle)), &peer, policy)
                .await;
        }
        (ended, has_begun)
    } else {
        let flooding = policy.cut.get_or_create(&KindLabel::of(CONTROL_FRAMES)).clone();
        let io = Metered::new(io, (peer.address, peer.requests.clone()), flooding);
        let service = service_fn(answering);
        let mut connection = Box::pin(http2(policy, executor).serve_connection(TokioIo::new(io), service));
        let graceful = http2::Connection::graceful_shutdown;
        (until_over(connection.as_mut(), graceful, (&peer, expiry), server).await, true)
    };
    match ended {
        // the client kept an idle connection open, which is no mistake
        Err(cut) if cut.is_slow() && !has_begun => Ok(()),
        // only for the first request, so that this answer is not sent in the middle of another one
        Err(cut) if cut.is_slow() && is_plain && version == HttpVersion::Http1 && !peer.requests.asked() => {
            Err(Disconnect { answer: TOO_SLOW, ..cut })
        }
        ended => ended,
    }
}

async fn until_over<C, F>(
    mut connection: Pin<&mut C>,
    graceful: fn(Pin<&mut C>),
    (peer, mut expiry): (&Peer, Option<Expiry>),
    Server { policy, stopping, .. }: &Server<F>,
) -> Result<(), Disconnect>
where
    C: Future<Output = hyper::Result<()>>,
{
    let (requests, bounds) = (&peer.requests, policy.bounds);
    let expired = async {
        match &mut expiry {
            Some(expiry) => expiry.over().await,
            None => std::future::pending().await,
        }
    };
    let over = tokio::select! {
        biased;
        () = requests.until_unused(bounds.head, bounds.idle) => TimeoutReason::Unused,
        ended = connection.as_mut() => return ended.or_else(|error| found_in(&error)),
        () = expired => TimeoutReason::Expired,
        () = stopping.cancelled() => TimeoutReason::Stopping,
    };
    match over {
        TimeoutReason::Unused if requests.are_unread() => return Err(Disconnect::unread_answer()),
        TimeoutReason::Unused if policy.is_grpc() || !requests.asked() => return Err(Disconnect::too_slow()),
        TimeoutReason::Expired if policy.is_grpc() => {
            // all calls end with the certificate; the client may reconnect with another one
            let address = peer.address;
            tracing::warn!(target: AUDIT, %address, "ended a connection: the client's certificate has expired");
            return Ok(());
        }
        TimeoutReason::Unused | TimeoutReason::Expired | TimeoutReason::Stopping => {}
    }
    graceful(connection.as_mut());
    // running requests may finish, as long as the client reads the answers
    tokio::select! {
        ended = connection => ended.or_else(|error| found_in(&error)),
        () = requests.until_stalled(bounds.idle) => {
            if requests.are_unread() { Err(Disconnect::unread_answer()) } else { Ok(()) }
        }
    }
}

/// Sends a long answer for as long as its client takes it.
async fn until_sent(
    sending: impl Future<Output = io::Result<()>>,
    peer: &Peer,
    policy: &Policy,
) -> Result<(), Disconnect> {
    tokio::select! {
        sent = sending => {
            sent.unwrap_or_else(|error| tracing::debug!(%error, "a client left before the end of its answer"));
            Ok(())
        }
        () = peer.requests.until_stalled(policy.bounds.idle) => Err(Disconnect::unread_answer()),
    }
}

/// What the client did wrong, if that ended the connection; else the error is only logged.
fn found_in(error: &hyper::Error) -> Result<(), Disconnect> {
    if let Some(cut) = Disconnect::found_in(error) {
        return Err(cut);
    }
    tracing::debug!(%error, "a connection ended before its time");
    Ok(())
}

fn http1(policy: &Policy) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(policy.bounds.head).max_buf_size(HEAD_BYTES);
    builder
}

fn http2(policy: &Policy, executor: Threads) -> http2::Builder<Threads> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(policy.streams)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    if policy.is_grpc() {
        builder
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_local_error_reset_streams(MAX_SERVER_RESETS);
    }
    builder
}
