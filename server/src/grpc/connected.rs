//! Connections as tonic takes them: plain ones as they come, others once their handshake is done. Either kind is cut off if its
//! client does not begin to speak HTTP/2; from then on pings tell whether it is there, and calls whether it needs to be: one without
//! a call that was let in gives its place to others.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    task::JoinSet,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{codegen::http, transport::server::Connected};

use super::guarded::role;
use crate::{
    frames::Metered,
    identity::Identity,
    incoming::{Connection, Incoming, Requests, Running},
    log::AUDIT,
    tls::{Expiry, Tls, expiry, names},
};

/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Clients that may shake hands at once; others wait in the kernel's queue. Each holds one of the listener's places, and some KiB:
/// enough that those who say nothing hold up nobody else.
const HANDSHAKES: usize = 4096;
/// A client that has not sent the preface of HTTP/2 after so long is cut off: every client of gRPC sends it at once.
const PREFACE_WITHIN: Duration = Duration::from_secs(10);
/// A client that nobody let in after so long is cut off: an agent sends its first call at once.
const ADMITTED_WITHIN: Duration = Duration::from_mins(1);
/// A client without a call for so long is cut off; it connects again when it has one. Agents have one as long as they run.
const UNUSED: Duration = Duration::from_mins(5);
/// Bytes of that preface (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// DNS names in the certificate that it has shown.
    pub(crate) names: Arc<[String]>,
    requests: Requests,
}

/// Counts a call that was let in among the requests of its connection.
pub(super) fn begin<R>(request: &http::Request<R>) -> Option<Running> {
    let (peer, role) = (request.extensions().get::<Peer>()?, role(request.uri().path()));
    let admitted = role.is_some() && request.extensions().get::<Arc<Identity>>().is_some();
    admitted.then(|| peer.requests.begin())
}

/// A connection that can be spoken over.
pub(super) struct Link {
    stream: Stream,
    preface: Option<Preface>,
    unused: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    /// Of the certificate that the client has shown.
    expiry: Option<Expiry>,
}

#[derive(Debug)]
enum Stream {
    Plain(Connection),
    Tls { stream: Box<TlsStream<Connection>>, peer: Peer },
}

/// What a client has still to send before it may take its time.
#[derive(Debug)]
struct Preface {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl Stream {
    fn requests(&self) -> Requests {
        match self {
            Self::Plain(connection) => connection.requests.clone(),
            Self::Tls { peer, .. } => peer.requests.clone(),
        }
    }
}

impl Link {
    fn new(stream: Stream) -> Self {
        let until = Box::pin(sleep(PREFACE_WITHIN));
        let unused = Box::pin(stream.requests().unused(ADMITTED_WITHIN, UNUSED));
        Self { stream, preface: Some(Preface { left: PREFACE_BYTES, until }), unused, expiry: None }
    }

    fn metered(self, cut: Counter) -> Metered<Self> {
        let peer = self.connect_info().address;
        Metered::new(self, peer, cut)
    }

    /// Takes note of bytes that the client has sent.
    fn came(&mut self, bytes: usize) {
        if let Some(preface) = &mut self.preface {
            preface.left = preface.left.saturating_sub(bytes);
        }
        self.preface.take_if(|preface| preface.left == 0);
    }

    /// The same, which ends with this certificate.
    fn until(self, expiry: Option<Expiry>) -> Self {
        Self { expiry, ..self }
    }

    /// An error once the client's certificate has ended: whatever it asks for on this connection ends with it, and it may come again with
    /// another one.
    fn over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(expiry) = &mut self.expiry else { return Poll::Pending };
        ready!(expiry.poll_over(cx));
        let address = self.connect_info().address;
        tracing::warn!(target: AUDIT, %address, "ended a connection: the client's certificate has expired");
        Poll::Ready(io::Error::new(io::ErrorKind::PermissionDenied, "the client's certificate has expired"))
    }

    /// An error once the client has not begun for too long, or has had no call.
    fn late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.unused.as_mut().poll(cx).is_ready() {
            // its future is not asked again
            self.unused = Box::pin(std::future::ready(()));
            return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "no call for too long"));
        }
        let Some(preface) = &mut self.preface else { return Poll::Pending };
        ready!(preface.until.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "no preface of HTTP/2"))
    }
}

/// What tonic serves.
pub(super) type Links = ReceiverStream<io::Result<Metered<Link>>>;

/// Makes links of `incoming`. Each handshake has a task of its own: a client that is slow holds up nobody. `cut` counts floods.
pub(super) fn links(
    mut incoming: Incoming,
    tls: Option<Tls>,
    cut: Counter,
) -> (Links, impl Future<Output = ()>) {
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
                    (Some(Ok(connection)), None) => Some(Link::new(Stream::Plain(connection))),
                    (Some(Ok(connection)), Some(tls)) => {
                        shaking.spawn(shake(tls, connection));
                        None
                    }
                },
                () = links.closed() => return,
            };
            if let Some(link) = link
                && links.send(Ok(link.metered(cut.clone()))).await.is_err()
            {
                return;
            }
        }
    };
    (ReceiverStream::new(receiver), shaking)
}

/// Shakes hands with a client; `None` if that fails.
fn shake(tls: &Tls, connection: Connection) -> impl Future<Output = Option<Link>> + use<> {
    let (acceptor, address, requests) = (tls.acceptor(), connection.peer, connection.requests.clone());
    async move {
        match timeout(HANDSHAKE_WITHIN, acceptor.accept(connection)).await {
            Ok(Ok(stream)) => {
                let peer = Peer { address, names: names(stream.get_ref().1), requests };
                let expiry = expiry(stream.get_ref().1);
                return Some(Link::new(Stream::Tls { stream: Box::new(stream), peer }).until(expiry));
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
        match &self.stream {
            Stream::Plain(connection) => Peer {
                address: connection.peer,
                names: Arc::default(),
                requests: connection.requests.clone(),
            },
            Stream::Tls { peer, .. } => peer.clone(),
        }
    }
}

/// The same call on either kind of stream.
macro_rules! either {
    ($link:expr, $stream:ident => $call:expr) => {
        match &mut $link.get_mut().stream {
            Stream::Plain(connection) => {
                let $stream = Pin::new(connection);
                $call
            }
            Stream::Tls { stream, .. } => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.over(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let read = either!(self.as_mut(), stream => stream.poll_read(cx, buffer));
        match read {
            Poll::Pending => return self.late(cx).map(Err),
            Poll::Ready(Ok(())) => self.came(buffer.filled().len().saturating_sub(before)),
            Poll::Ready(Err(_)) => {}
        }
        read
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
        match &self.stream {
            Stream::Plain(connection) => connection.is_write_vectored(),
            Stream::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::incoming::{Counts, incoming};

    #[tokio::test]
    async fn a_connection_ends_with_the_certificate_of_its_client() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let (mut connections, taking) = incoming(listener, 2, counts);
        let mut is_ended = async |last| {
            let mut client = TcpStream::connect(address).await.unwrap();
            let connection = connections.next().await.unwrap().unwrap();
            let mut link = Link::new(Stream::Plain(connection)).until(Some(Expiry::new(last)));
            client.write_all(b"P").await.unwrap();
            link.read(&mut [0]).await.is_err()
        };
        let clients = async {
            assert!(is_ended(1).await, "even where there is something to read");
            assert!(!is_ended(4_000_000_000).await);
        };
        tokio::select! {
            () = taking => {}
            () = clients => {}
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_begin_to_speak_is_cut_off_and_one_whose_call_runs_may_take_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let (connections, taking) = incoming(listener, 8, counts);
        let (mut links, shaking) = links(connections, None, Counter::default());
        let clients = async move {
            let mut silent = TcpStream::connect(address).await.unwrap();
            let mut link = links.next().await.unwrap().unwrap();
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut other = links.next().await.unwrap().unwrap();
            silent.write_all(b"PRI").await.unwrap();
            client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
            link.read_exact(&mut [0; 3]).await.unwrap();
            other.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
            tokio::time::pause();
            assert_eq!(link.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let running = other.inner().stream.requests().begin();
            assert!(timeout(UNUSED * 10, other.read(&mut [0])).await.is_err(), "its call runs");
            drop(running);
            assert_eq!(other.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        };
        tokio::join!(taking, shaking, clients);
    }
}
