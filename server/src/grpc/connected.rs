//! Connections as tonic takes them: plain ones as they come, others once their handshake is done.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::server::TlsStream;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::transport::server::Connected;

use crate::{
    incoming::{Connection, Incoming},
    tls::{Tls, names},
};

/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Clients that may shake hands at once; others wait in the kernel's queue.
const HANDSHAKES: usize = 256;

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    #[expect(dead_code, reason = "shown with its request in logs")]
    pub(crate) address: SocketAddr,
    /// DNS names in the certificate that it has shown.
    pub(crate) names: Arc<[String]>,
}

/// A connection that can be spoken over.
#[derive(Debug)]
pub(super) enum Link {
    Plain(Connection),
    Tls { stream: Box<TlsStream<Connection>>, peer: Peer },
}

/// What tonic serves.
pub(super) type Links = ReceiverStream<io::Result<Link>>;

/// Makes links of `incoming`. Each handshake has a task of its own: a client that is slow holds up nobody.
pub(super) fn links(mut incoming: Incoming, tls: Option<Tls>) -> (Links, impl Future<Output = ()>) {
    let (links, receiver) = mpsc::channel(1);
    let shaking = async move {
        let mut shaking: JoinSet<Option<Link>> = JoinSet::new();
        loop {
            let room = shaking.len() < HANDSHAKES;
            let link = tokio::select! {
                Some(done) = shaking.join_next() => done.ok().flatten(),
                next = incoming.next(), if room => match (next, &tls) {
                    (None, _) => return,
                    (Some(Err(_)), _) => None,
                    (Some(Ok(connection)), None) => Some(Link::Plain(connection)),
                    (Some(Ok(connection)), Some(tls)) => {
                        shaking.spawn(shake(tls, connection));
                        None
                    }
                },
                () = links.closed() => return,
            };
            if let Some(link) = link
                && links.send(Ok(link)).await.is_err()
            {
                return;
            }
        }
    };
    (ReceiverStream::new(receiver), shaking)
}

/// Shakes hands with a client; `None` if that fails.
fn shake(tls: &Tls, connection: Connection) -> impl Future<Output = Option<Link>> + use<> {
    let (acceptor, address) = (tls.acceptor(), connection.peer);
    async move {
        match timeout(HANDSHAKE_WITHIN, acceptor.accept(connection)).await {
            Ok(Ok(stream)) => {
                let peer = Peer { address, names: names(stream.get_ref().1) };
                return Some(Link::Tls { stream: Box::new(stream), peer });
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "a TLS handshake failed"),
            Err(_slow) => tracing::debug!(%address, "a TLS handshake took too long"),
        }
        None
    }
}

impl Connected for Link {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        match self {
            Self::Plain(connection) => Peer { address: connection.peer, names: Arc::default() },
            Self::Tls { peer, .. } => peer.clone(),
        }
    }
}

/// The same call on either kind of stream.
macro_rules! either {
    ($link:expr, $stream:ident => $call:expr) => {
        match $link.get_mut() {
            Self::Plain(connection) => {
                let $stream = Pin::new(connection);
                $call
            }
            Self::Tls { stream, .. } => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(connection) => connection.is_write_vectored(),
            Self::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
