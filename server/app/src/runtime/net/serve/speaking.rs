//! One connection that requests can be made on, plain or with TLS: how it comes to be, and what ends it.

use std::{convert::Infallible, error::Error, io, pin::pin, time::Duration};

use http_body::Body;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

use super::{
    BoxError, Peer, Policy, Protocol, Server,
    disconnect::Disconnect,
    leftover::{ClientBody, Drain, Leftovers},
    stray_http,
    threads::Threads,
};
use crate::runtime::{
    audit::AUDIT,
    metrics::Kind,
    net::{
        h2_abuse::{CONTROL_FRAMES, Metered},
        idle::IdleTimeoutStream,
        tls::{Expiry, expiry, names},
    },
};

/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// An HTTP/2 client that does not answer a ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Largest head of a request of HTTP/1: the longest that Spack sends has 844 bytes in its first line.
const HEAD_BYTES: usize = 64 * 1024;
/// Bytes of the headers of one request of HTTP/2. The longest header of a gRPC client is a token of a few KiB.
const HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Calls that a client took back before they were looked at, at most on one connection: what h2 has by itself, held here so that no
/// other release changes it.
const RESETS_PENDING: usize = 20;
/// Calls that a client made the server take back by breaking rules, at most on one connection (CVE-2025-8671). An honest client makes
/// none; held here as well.
const RESETS_MADE: usize = 256;

/// What a client shakes hands with.
pub(super) struct Handshake {
    pub(super) acceptor: TlsAcceptor,
    /// Among those that shake hands.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

/// What a connection begins with.
pub(super) enum Opening {
    Link(Box<Link>),
    /// A client of another protocol, which gets this answer and no more.
    Stray(&'static str),
    Gone,
}

/// A connection that requests can be made on.
pub(super) struct Link {
    io: Either<IdleTimeoutStream, TlsStream<IdleTimeoutStream>>,
    peer: Peer,
    /// Of the certificate that the client has shown.
    expiry: Option<Expiry>,
    /// What is left of the time for the preface of HTTP/2.
    preface: Option<Duration>,
}

#[cfg(test)]
impl Opening {
    /// The same connection, with a certificate that ends then.
    pub(super) fn until(self, expiry: Expiry) -> Box<Link> {
        let Self::Link(mut link) = self else { panic!("no connection") };
        link.expiry = Some(expiry);
        link
    }
}

/// The time of a connection is over.
enum Over {
    Unused,
    Expired,
    Stopping,
}

impl Link {
    /// Shakes hands where that is asked for. Where `preface` is set, only HTTP/2 is spoken.
    pub(super) async fn open(
        lent: IdleTimeoutStream,
        mut peer: Peer,
        handshake: Option<Handshake>,
        preface: Option<Duration>,
    ) -> Result<Opening, Disconnect> {
        let Some(Handshake { acceptor, .. }) = &handshake else {
            return Ok(Self::open_plain(lent, peer, preface).await);
        };
        match timeout(HANDSHAKE_WITHIN, acceptor.accept(lent)).await {
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let expiry = expiry(session);
                peer.names = names(session);
                Ok(Opening::Link(Box::new(Self { io: Either::Right(stream), peer, expiry, preface })))
            }
            // looks at whether the port is open, as balancers do
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Opening::Gone),
            Ok(Err(error)) => Err(Disconnect::of("handshake", &error.to_string())),
            Err(_slow) => Err(Disconnect::of("handshake", "it took too long")),
        }
    }

    async fn open_plain(mut lent: IdleTimeoutStream, peer: Peer, preface: Option<Duration>) -> Opening {
        let begun = Instant::now();
        let stray = match preface {
            Some(preface) => stray_http::answer(&mut lent, peer.address, preface).await,
            None => Ok(None),
        };
        let preface = preface.map(|preface| preface.saturating_sub(begun.elapsed()));
        match stray {
            Ok(Some(answer)) => Opening::Stray(answer),
            Ok(None) => Opening::Link(Box::new(Self { io: Either::Left(lent), peer, expiry: None, preface })),
            Err(_gone) => Opening::Gone,
        }
    }

    /// Serves until the client leaves or has asked for nothing for too long, the server stops, or the certificate that the client has
    /// shown ends.
    pub(super) async fn speak<F, A, B>(
        self: Box<Self>,
        Server { policy, answer, stopping }: &Server<F>,
        threads: Threads,
        (leftovers, drain): (Leftovers, Drain),
    ) -> Result<(), Disconnect>
    where
        F: Fn(Request<ClientBody>) -> A,
        A: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let Self { io, peer, mut expiry, preface } = *self;
        let (address, requests, bounds) = (peer.address, peer.requests.clone(), policy.bounds);
        let flooding = policy.cut.get_or_create(&Kind::of(CONTROL_FRAMES)).clone();
        let io = TokioIo::new(Metered::new(io, (address, requests.clone()), flooding, preface));
        let builder = builder(policy, threads.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            threads.begin(request.uri().path());
            let is_http1 = request.version() < hyper::Version::HTTP_2;
            let mut request = request.map(|body| leftovers.lend(body, is_http1));
            request.extensions_mut().insert(peer.clone());
            let answering = answer(request);
            async move { Ok::<_, Infallible>(answering.await) }
        });
        let mut connection = pin!(builder.serve_connection(io, service));
        let expired = async {
            match &mut expiry {
                Some(expiry) => expiry.over().await,
                None => std::future::pending().await,
            }
        };
        let over = tokio::select! {
            biased;
            // first: where nothing moved for as long, the connection ends too, and says less of why
            () = requests.clone().unused(bounds.head, bounds.idle) => Over::Unused,
            ended = connection.as_mut() => return ended.or_else(|error| found_in(&*error)),
            () = async { drain.run().await; std::future::pending().await } => Over::Stopping,
            () = expired => Over::Expired,
            () = stopping.cancelled() => Over::Stopping,
        };
        let is_grpc = matches!(policy.protocol, Protocol::Grpc { .. });
        match over {
            Over::Unused if requests.are_unread() => return Err(Disconnect::unread()),
            Over::Unused if is_grpc || !requests.asked() => {
                return Err(Disconnect::of("slow", "no request for too long"));
            }
            Over::Expired if is_grpc => {
                // whatever it asks for ends with the certificate, and it may come again with another one
                tracing::warn!(target: AUDIT, %address, "ended a connection: the client's certificate has expired");
                return Ok(());
            }
            Over::Unused | Over::Expired | Over::Stopping => {}
        }
        connection.as_mut().graceful_shutdown();
        // for as long as its client reads the answers
        tokio::select! {
            ended = connection => ended.or_else(|error| found_in(&*error)),
            () = requests.unread(bounds.idle) => Err(Disconnect::unread()),
        }
    }
}

/// What is wrong where a connection ended before its time.
fn found_in(error: &(dyn Error + 'static)) -> Result<(), Disconnect> {
    if let Some(cut) = Disconnect::found_in(error) {
        return Err(cut);
    }
    tracing::debug!(error, "a connection ended before its time");
    Ok(())
}

fn builder(policy: &Policy, threads: Threads) -> auto::Builder<Threads> {
    let mut builder = auto::Builder::new(threads);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(policy.bounds.head).max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_concurrent_streams(policy.streams)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    match policy.protocol {
        Protocol::Http => builder,
        Protocol::Grpc { .. } => {
            let mut http2 = builder.http2();
            http2.max_pending_accept_reset_streams(RESETS_PENDING).max_local_error_reset_streams(RESETS_MADE);
            builder.http2_only()
        }
    }
}
