//! New connections of a listener, as many as there may be files for, and no more.
//!
//! The store opens files too: connections alone must never use all that a process may have. One connection more is taken and
//! closed at once, so that its client is told to come back instead of waiting, and counted. When the system has no file for a
//! connection, the next try waits a moment: trying again at once would take a whole core.

mod places;
mod requests;

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use places::Places;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
pub(crate) use requests::{Requests, Running};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{files, tls::Tls};

/// A bound address. With a certificate it speaks TLS alone.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Tls>,
}

/// Where connections are counted. Listeners may share it.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    /// Those that are there.
    pub(crate) open: Gauge,
    /// Those that were one too many.
    pub(crate) refused: Counter,
}

/// A connection that gives its place back when it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) requests: Requests,
    open: Gauge,
}

/// New connections, in the order in which they came.
pub(crate) type Incoming = ReceiverStream<io::Result<Connection>>;

/// Takes connections from `listener`, at most `bound` at a time, until nobody reads the other half any more.
pub(crate) fn incoming(
    listener: TcpListener,
    bound: usize,
    counts: Counts,
) -> (Incoming, impl Future<Output = ()>) {
    let (connections, receiver) = mpsc::channel(1);
    let places = Places::of(bound);
    let taking = async move {
        let mut full = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = connections.closed() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    files::after_failed_accept(&error).await;
                    continue;
                }
            };
            let place = places.take(peer.ip());
            if place.is_none() && !full {
                tracing::warn!(bound, %peer, "as many connections as there may be; more are closed at once");
            }
            full = place.is_none();
            let Some(place) = place else {
                counts.refused.inc();
                continue;
            };
            // without it every small answer waits for the delayed acknowledgement of the last one, 40 ms
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that is gone already");
                continue;
            }
            counts.open.inc();
            let requests = Requests::new(place);
            let connection = Connection { stream, peer, requests, open: counts.open.clone() };
            if connections.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    };
    (ReceiverStream::new(receiver), taking)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests.leave();
        self.open.dec();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn one_connection_too_many_is_closed_at_once_and_a_place_that_is_given_back_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let (mut connections, taking) = incoming(listener, 1, counts.clone());
        let clients = async move {
            let _first = TcpStream::connect(address).await.unwrap();
            let held = connections.next().await.unwrap().unwrap();
            let mut second = TcpStream::connect(address).await.unwrap();
            assert_eq!(second.read(&mut [0]).await.unwrap_or(0), 0, "closed");
            assert_eq!((counts.open.get(), counts.refused.get()), (1, 1));
            drop(held);
            let _third = TcpStream::connect(address).await.unwrap();
            connections.next().await.unwrap().unwrap();
            assert_eq!(counts.refused.get(), 1);
        };
        tokio::join!(taking, clients);
    }
}
