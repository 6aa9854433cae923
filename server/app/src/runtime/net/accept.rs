//! New connections of a listener, as many as there may be files for, and no more.
//!
//! The store opens files too: connections alone must never use all that a process may have. One connection more is taken and
//! closed at once, so that its client tries again later instead of waiting, and counted. When the system has no file for a
//! connection, the next try waits a moment: trying again at once would take a whole core. A listener with a [`SpareFile`] takes one
//! connection at a time in its place, and waits for the end of that.

mod places;
mod requests;
mod spare;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

pub(crate) use places::network;
use places::{ConnectionSlot, Places};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
pub(crate) use requests::{Requests, Running};
pub(crate) use spare::SpareFile;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::runtime::net::tls::Tls;

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
    /// It has the place of the spare file, which waits for its end. `None` for all others.
    borrowed: Option<oneshot::Sender<()>>,
}

/// Takes connections from a listener, as many at a time as there are places, until it is dropped.
#[derive(Debug)]
pub(crate) struct Acceptor {
    tcp: TcpListener,
    places: Arc<Places>,
    counts: Counts,
    spare: SpareFile,
    /// The last connection was one too many.
    full: bool,
    /// Comes when the connection ends that has the place of the spare file.
    borrowed: Option<oneshot::Receiver<()>>,
}

impl Acceptor {
    pub(crate) fn new(tcp: TcpListener, bound: usize, counts: Counts, spare: SpareFile) -> Self {
        Self { tcp, places: Places::of(bound), counts, spare, full: false, borrowed: None }
    }

    /// The next connection. One that is one too many is closed, and counted.
    pub(crate) async fn next(&mut self) -> Connection {
        self.spare.returned(self.borrowed.take()).await;
        loop {
            let (stream, peer) = match self.tcp.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.spare.after_failed_accept(&error).await;
                    continue;
                }
            };
            let Some(place) = self.place(peer) else { continue };
            // without it every small answer waits for the delayed acknowledgement of the last one, 40 ms
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that is gone already");
                continue;
            }
            self.counts.open.inc();
            let open = self.counts.open.clone();
            let (borrowed, ended) = self.spare.borrow();
            self.borrowed = ended;
            return Connection { stream, peer, requests: Requests::new(place), open, borrowed };
        }
    }

    /// A place for a new connection; `None` if there is none.
    fn place(&mut self, peer: SocketAddr) -> Option<ConnectionSlot> {
        let place = self.places.take(peer.ip());
        let was_full = std::mem::replace(&mut self.full, place.is_none());
        if self.full {
            self.counts.refused.inc();
        }
        if self.full && !was_full {
            let bound = self.places.bound();
            tracing::warn!(bound, %peer, "connection limit reached; more connections are closed at once");
        }
        place
    }
}

impl Connection {
    /// It keeps all others waiting, so it is served briefly.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// This machine's address of it; `None` if it is gone.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        Some(self.stream.local_addr().ok()?.ip())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests.leave();
        self.open.dec();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn one_connection_too_many_is_closed_at_once_and_a_place_that_is_given_back_is_free() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let counts = Counts { open: Gauge::default(), refused: Counter::default() };
        let mut acceptor = Acceptor::new(tcp, 1, counts.clone(), SpareFile::none());
        let _first = TcpStream::connect(address).await.unwrap();
        let held = acceptor.next().await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut buffer = [0];
        tokio::select! {
            _none = acceptor.next() => panic!("there is no place for it"),
            read = second.read(&mut buffer) => assert_eq!(read.unwrap_or(0), 0, "closed"),
        }
        assert_eq!((counts.open.get(), counts.refused.get()), (1, 1));
        drop(held);
        let _third = TcpStream::connect(address).await.unwrap();
        acceptor.next().await;
        assert_eq!(counts.refused.get(), 1);
    }
}
