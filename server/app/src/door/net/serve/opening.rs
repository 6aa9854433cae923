//! The beginning of a connection: the TLS handshake, if the listener has a certificate, and the
//! HTTP version.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::Interest,
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

use super::{
    Policy, Protocol,
    disconnect::{Disconnect, TOO_SLOW},
    stray_http,
};
use crate::{
    door::net::h2_abuse::PREFACE,
    runtime::tls::{Expiry, expiry, names},
};

/// Time limit for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Wait until the next look at a client that has sent a part of the HTTP/2 preface: the first wait,
/// and the longest one.
const LOOK_AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// What a TLS handshake needs.
pub(super) struct Handshake {
    pub(super) acceptor: TlsAcceptor,
    /// The slot among the concurrent handshakes.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

/// The result of opening a connection.
pub(super) enum FirstBytes<'c> {
    Opened(Box<OpenedConnection<'c>>),
    /// The client speaks another protocol; it gets only this answer.
    Stray(&'static str),
    Gone,
}

/// The bytes of a connection, without TLS or within it.
pub(super) type Transport<'c> = Either<&'c mut TcpStream, Box<TlsStream<&'c mut TcpStream>>>;

/// A connection that is ready for requests.
pub(super) struct OpenedConnection<'c> {
    pub(super) io: Transport<'c>,
    pub(super) version: HttpVersion,
    /// DNS names in the client's certificate.
    pub(super) names: Arc<[String]>,
    /// When the client's certificate expires, if it sent one.
    pub(super) expiry: Option<Expiry>,
}

/// Does the handshake, and finds out the HTTP version.
///
/// # Errors
/// The handshake failed.
pub(super) async fn open<'c>(
    stream: &'c mut TcpStream,
    peer: SocketAddr,
    handshake: Option<Handshake>,
    policy: &Policy,
) -> Result<FirstBytes<'c>, Disconnect> {
    match handshake {
        Some(handshake) => open_tls(stream, handshake, policy).await,
        None => open_plain(stream, peer, policy).await,
    }
}

async fn open_tls<'c>(
    stream: &'c mut TcpStream,
    Handshake { acceptor, _place }: Handshake,
    policy: &Policy,
) -> Result<FirstBytes<'c>, Disconnect> {
    match timeout(HANDSHAKE_WITHIN, Box::pin(acceptor.accept(stream))).await {
        Ok(Ok(stream)) => {
            let (_, session) = stream.get_ref();
            let is_http2 = policy.is_grpc() || session.alpn_protocol() == Some(b"h2");
            let version = if is_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
            let (names, expiry) = (names(session), expiry(session));
            Ok(FirstBytes::Opened(Box::new(OpenedConnection {
                io: Either::Right(Box::new(stream)),
                version,
                names,
                expiry,
            })))
        }
        // load balancers connect like this to check whether the port is open
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(FirstBytes::Gone),
        Ok(Err(error)) => Err(Disconnect::of("handshake", &error.to_string())),
        Err(_slow) => Err(Disconnect::of("handshake", "it took too long")),
    }
}

async fn open_plain<'c>(
    stream: &'c mut TcpStream,
    peer: SocketAddr,
    policy: &Policy,
) -> Result<FirstBytes<'c>, Disconnect> {
    let (within, otherwise) = match policy.protocol {
        Protocol::Http => (policy.bounds.head, HttpVersion::Http1),
        Protocol::Grpc { preface, .. } => (preface, HttpVersion::Http2),
    };
    let version = match timeout(within, version(stream, otherwise)).await {
        Ok(Ok(version)) => version,
        Ok(Err(_gone)) => return Ok(FirstBytes::Gone),
        Err(_slow) if policy.is_grpc() || !has_sent(stream).await => return Ok(FirstBytes::Gone),
        Err(_slow) => return Err(Disconnect { answer: TOO_SLOW, ..Disconnect::too_slow() }),
    };
    if policy.is_grpc() && version == HttpVersion::Http1 {
        return Ok(stray_http::answer(stream, peer).await.map_or(FirstBytes::Gone, FirstBytes::Stray));
    }
    let opened = OpenedConnection { io: Either::Left(stream), version, names: Arc::default(), expiry: None };
    Ok(FirstBytes::Opened(Box::new(opened)))
}

/// Whether the client has sent any bytes.
async fn has_sent(stream: &TcpStream) -> bool {
    let sent = timeout(Duration::ZERO, stream.peek(&mut [0])).await;
    sent.is_ok_and(|bytes| bytes.is_ok_and(|bytes| bytes > 0))
}

/// The HTTP version that the client speaks; `otherwise` if it is not HTTP. Its bytes are not
/// consumed.
async fn version(stream: &TcpStream, otherwise: HttpVersion) -> io::Result<HttpVersion> {
    let (mut first, [mut again, latest]) = ([0; PREFACE.len()], LOOK_AGAIN_AFTER);
    loop {
        let came = stream.peek(&mut first).await?;
        let first = first.get(..came).unwrap_or_default();
        match came {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            // the HTTP library reports what is wrong with bytes that are no method, such as a TLS
            // handshake
            _ if !first.first().is_some_and(u8::is_ascii_uppercase) => return Ok(otherwise),
            _ if !PREFACE.starts_with(first) => return Ok(HttpVersion::Http1),
            _ if came == PREFACE.len() => return Ok(HttpVersion::Http2),
            // the client has closed its side, so the rest of the preface never comes
            _ if stream.ready(Interest::READABLE).await?.is_read_closed() => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // there is no event for more bytes than those that wait already, so look again later
            _ => sleep(again).await,
        }
        again = latest.min(again * 2);
    }
}
