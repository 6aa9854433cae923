//! Accepts connections on a listener, up to a limit.
//!
//! The limit follows from the number of files that the process may open, because the store needs
//! files, too. A connection beyond the limit takes the slot of another one, which is closed and counted
//! ([`places`]). If the system has no file for a connection, the
//! next try waits a moment, because trying again at once would use a whole core. A listener with a
//! [`SpareFiles`] closes a spare file instead, accepts one connection in its place, and waits until
//! that connection has ended.

mod places;
mod requests;
mod serving;
mod spare;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd as _,
    sync::Arc,
    time::Duration,
};

use places::ConnectionSlots;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
pub(crate) use requests::{ConnectionRequests, RunningRequest};
pub(crate) use spare::SpareFiles;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::Instant,
};

use crate::runtime::tls::Tls;

/// Least time between two warnings that a listener is full.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

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
    /// Connections that were closed for newer ones, because the limit was reached.
    pub(crate) replaced: Counter,
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
    /// When it was last logged that all slots are taken.
    warned: Option<Instant>,
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
            warned: None,
            borrowed: None,
        }
    }

    /// Accepts the next connection. Beyond the limit it takes the slot of another one, which is closed and counted.
    pub(crate) async fn next(&mut self) -> Connection {
        self.spare_files.wait_for_end(self.borrowed.take()).await;
        loop {
            self.slots.until_few_end().await;
            let (stream, peer) = match self.tcp.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.spare_files.after_failed_accept(&error).await;
                    continue;
                }
            };
            let requests = self.take_slot(peer);
            // without this, small answers wait up to 40 ms for the delayed acknowledgement of the
            // one before
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that is gone already");
                requests.end_request();
                continue;
            }
            self.counts.open.inc();
            let open = self.counts.open.clone();
            let (borrowed, ended) = self.spare_files.borrow();
            self.borrowed = ended;
            return Connection { stream, peer, requests, open_gauge: open, borrowed };
        }
    }

    /// Takes a slot for a new connection.
    fn take_slot(&mut self, peer: SocketAddr) -> ConnectionRequests {
        let requests = ConnectionRequests::new();
        let (slot, replaced) = self.slots.take_slot(peer.ip(), requests.serving());
        requests.hold(slot);
        let Some(replaced) = replaced else { return requests };
        replaced.end();
        self.counts.replaced.inc();
        if self.slots.are_taken() && self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_PAUSE) {
            self.warned = Some(Instant::now());
            let bound = self.slots.bound();
            tracing::warn!(bound, %peer, "connection limit reached; others are closed for new connections, those without an admitted request first");
        }
        requests
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
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn a_full_listener_closes_the_oldest_for_the_next() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let counts = ConnectionCounts { open: Gauge::default(), replaced: Counter::default() };
        let mut acceptor = Acceptor::new(tcp, 1, counts.clone(), SpareFiles::none());
        let tasks = TaskTracker::new();
        let mut first = TcpStream::connect(address).await.unwrap();
        let held = acceptor.next().await;
        let requests = held.requests.clone();
        let serve = |held: Connection| async move {
            std::future::pending::<()>().await;
            drop(held);
        };
        requests.served_by(tasks.spawn(serve(held)).abort_handle());
        let _second = TcpStream::connect(address).await.unwrap();
        let second = acceptor.next().await;
        assert_eq!(first.read(&mut [0]).await.unwrap_or(0), 0, "closed");
        assert_eq!((counts.open.get(), counts.replaced.get()), (1, 1));
        // also before its task is known
        let _third = TcpStream::connect(address).await.unwrap();
        let third = acceptor.next().await;
        let requests = second.requests.clone();
        let late = tasks.spawn(serve(second));
        requests.served_by(late.abort_handle());
        assert!(late.await.unwrap_err().is_cancelled());
        drop(third);
        let _fourth = TcpStream::connect(address).await.unwrap();
        let _held = acceptor.next().await;
        assert_eq!((counts.open.get(), counts.replaced.get()), (1, 2));
    }
}
