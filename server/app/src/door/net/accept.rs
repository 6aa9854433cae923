//! Accepts connections on a listener, up to a limit.
//!
//! The limit follows from the number of files that the process may open, because the store needs
//! files, too. A connection beyond the limit is accepted, closed at once and counted, so that its
//! client tries again later instead of waiting. If the system has no file for a connection, the
//! next try waits a moment, because trying again at once would use a whole core. A listener with a
//! [`SpareFiles`] closes a spare file instead, accepts one connection in its place, and waits until
//! that connection has ended.

mod places;
mod requests;
mod spare;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd as _,
    sync::Arc,
};

use places::{ConnectionSlot, ConnectionSlots};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
pub(crate) use requests::{ConnectionRequests, RunningRequest};
pub(crate) use spare::SpareFiles;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::runtime::tls::Tls;

/// A bound address. If it has a certificate, only TLS connections are served.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Tls>,
}

impl Listener {
    /// Another handle of the same address: each connection is accepted by one of them.
    /// Errors: the system gives no further file.
    pub(crate) fn share(&self) -> io::Result<Self> {
        let tcp = std::net::TcpListener::from(self.tcp.as_fd().try_clone_to_owned()?);
        Ok(Self { tcp: TcpListener::from_std(tcp)?, tls: self.tls.clone() })
    }
}

/// Metrics of connections. Listeners may share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionCounts {
    /// Open connections.
    pub(crate) open: Gauge,
    /// Connections that were closed because the limit was reached.
    pub(crate) refused: Counter,
}

/// An accepted connection. Its slot is given back on drop.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) requests: ConnectionRequests,
    open_gauge: Gauge,
    /// Dropped at the end of a connection that uses the place of a spare file, to signal the end.
    /// `None` for all other connections.
    borrowed: Option<oneshot::Sender<()>>,
}

/// Accepts the connections of a listener, up to the limit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Acceptor {
    tcp: TcpListener,
    slots: Arc<ConnectionSlots>,
    counts: ConnectionCounts,
    spare_files: SpareFiles,
    /// Whether the last connection was refused because the limit was reached.
    was_full: bool,
    /// Completes when the connection that uses the place of a spare file has ended.
    borrowed: Option<oneshot::Receiver<()>>,
}

impl Acceptor {
    pub(crate) fn new(tcp: TcpListener, bound: usize, counts: ConnectionCounts, spare: SpareFiles) -> Self {
        Self {
            tcp,
            slots: ConnectionSlots::of(bound),
            counts,
            spare_files: spare,
            was_full: false,
            borrowed: None,
        }
    }

    /// Accepts the next connection. Connections beyond the limit are closed and counted.
    pub(crate) async fn next(&mut self) -> Connection {
        self.spare_files.wait_for_end(self.borrowed.take()).await;
        loop {
            let (stream, peer) = match self.tcp.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.spare_files.after_failed_accept(&error).await;
                    continue;
                }
            };
            let Some(place) = self.take_slot(peer) else { continue };
            // without this, small answers wait up to 40 ms for the delayed acknowledgement of the
            // one before
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that is gone already");
                continue;
            }
            self.counts.open.inc();
            let open = self.counts.open.clone();
            let (borrowed, ended) = self.spare_files.borrow();
            self.borrowed = ended;
            return Connection {
                stream,
                peer,
                requests: ConnectionRequests::new(place),
                open_gauge: open,
                borrowed,
            };
        }
    }

    /// Takes a slot for a new connection; `None` if there is none.
    fn take_slot(&mut self, peer: SocketAddr) -> Option<ConnectionSlot> {
        let place = self.slots.take_slot(peer.ip());
        let was_full = std::mem::replace(&mut self.was_full, place.is_none());
        if self.was_full {
            self.counts.refused.inc();
        }
        if self.was_full && !was_full {
            let bound = self.slots.bound();
            tracing::warn!(bound, %peer, "connection limit reached; more connections are closed at once");
        }
        place
    }
}

impl Connection {
    /// Whether the connection uses the place of a spare file. All others wait for its end, so it is
    /// served only briefly.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// This machine's address of the connection; `None` if the connection is closed.
    pub(crate) fn local_address(&self) -> Option<IpAddr> {
        Some(self.stream.local_addr().ok()?.ip())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests.end_request();
        self.open_gauge.dec();
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
        let counts = ConnectionCounts { open: Gauge::default(), refused: Counter::default() };
        let mut acceptor = Acceptor::new(tcp, 1, counts.clone(), SpareFiles::none());
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
