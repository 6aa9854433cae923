//! New connections, as many as there may be files for, and no more.
//!
//! The store opens files too: connections alone must never use all that a process may have. One connection more is taken and
//! closed at once, so that its client is told to come back instead of waiting, and counted. When the system has no file for a
//! connection, the next try waits a moment: trying again at once would take a whole core.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::metrics::Metrics;

/// After a failure that is not of one connection alone.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that gives its place back when it ends.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

/// What tonic serves.
pub(super) type Incoming = ReceiverStream<io::Result<Connection>>;

/// Takes connections from `listener`, at most `bound` at a time, until nobody reads the other half any more.
pub(super) fn incoming(
    listener: TcpListener,
    bound: usize,
    metrics: Arc<Metrics>,
) -> (Incoming, impl Future<Output = ()>) {
    let (connections, receiver) = mpsc::channel(1);
    let places = Arc::new(Semaphore::new(bound));
    let taking = async move {
        let mut full = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = connections.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot take connections; trying again");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let place = Arc::clone(&places).try_acquire_owned();
            if place.is_err() && !full {
                tracing::warn!(bound, "as many connections as there may be; more are closed at once");
            }
            full = place.is_err();
            let Ok(place) = place else {
                metrics.connections_refused.inc();
                continue;
            };
            // without it every small answer waits for the delayed acknowledgement of the last one, 40 ms
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that is gone already");
                continue;
            }
            metrics.connections.inc();
            let connection = Connection { stream, metrics: Arc::clone(&metrics), _place: place };
            if connections.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    };
    (ReceiverStream::new(receiver), taking)
}

/// The next connection may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
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
        let metrics = Arc::new(Metrics::new());
        let (mut connections, taking) = incoming(listener, 1, Arc::clone(&metrics));
        let clients = async move {
            let _first = TcpStream::connect(address).await.unwrap();
            let held = connections.next().await.unwrap().unwrap();
            let mut second = TcpStream::connect(address).await.unwrap();
            assert_eq!(second.read(&mut [0]).await.unwrap_or(0), 0, "closed");
            assert_eq!((metrics.connections.get(), metrics.connections_refused.get()), (1, 1));
            drop(held);
            let _third = TcpStream::connect(address).await.unwrap();
            connections.next().await.unwrap().unwrap();
            assert_eq!(metrics.connections_refused.get(), 1);
        };
        tokio::join!(taking, clients);
    }
}
