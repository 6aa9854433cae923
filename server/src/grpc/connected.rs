//! Connections that calls can be made on: plain ones as they come, others once their handshake is done. Either kind is cut off if its
//! client does not begin to speak HTTP/2; from then on pings tell whether it is there, and calls whether it needs to be: one without
//! a call that was let in gives its place to others.

mod link;
mod stray_http;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use link::{Link, Stream};
use prometheus_client::metrics::counter::Counter;
pub(super) use stray_http::turned_away;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use crate::{
    frames::Metered,
    incoming::{Connection, Incoming, Requests, Running},
    tls::{Tls, expiry, names},
};

/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Clients that may shake hands at once; others wait in the kernel's queue. Each holds one of the listener's places, and some KiB:
/// enough that those who say nothing hold up nobody else.
const HANDSHAKES: usize = 4096;

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// DNS names in the certificate that it has shown.
    pub(crate) names: Arc<[String]>,
    requests: Requests,
}

impl Peer {
    /// Counts a call that was let in among the requests of its connection.
    pub(super) fn begin(&self) -> Running {
        let running = self.requests.begin();
        self.requests.let_in();
        running
    }
}

/// A connection that calls can be made on, and who makes them.
pub(super) struct Arrived {
    pub(super) io: Metered<Link>,
    pub(super) peer: Peer,
}

/// Such connections, in the order in which they came to be.
pub(super) type Links = ReceiverStream<Arrived>;

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
                && links.send(link.metered(cut.clone())).await.is_err()
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
