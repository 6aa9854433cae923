//! The servers of the simulated network.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use plimsoll_support::collector::{CollectorState, service};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tonic::{
    Request, Status,
    service::interceptor::InterceptorLayer,
    transport::{
        Server,
        server::{Connected, TcpConnectInfo},
    },
};
use turmoil::net;

/// The port of every server.
pub(super) const PORT: u16 = 7410;

/// A connection as the collector has it.
struct Accepted(net::TcpStream);

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo { local_addr: None, remote_addr: None }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The number of the server that serves; the others are standbys.
pub(super) type Leader = Arc<AtomicUsize>;

/// The program of server `own`; what it keeps is the disk, or the database of all servers.
pub(super) async fn serve(state: Arc<Mutex<CollectorState>>, leader: Leader, own: usize) -> turmoil::Result {
    let listener = net::TcpListener::bind(("0.0.0.0", PORT)).await?;
    let (connections, incoming) = mpsc::channel(64);
    let accepting = TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(connections.send(io::Result::Ok(Accepted(stream))).await);
        }
    });
    let _accepting = AbortOnDropHandle::new(accepting);
    let answer = move |request: Request<()>| {
        let serves = leader.load(Relaxed) == own;
        if serves { Ok(request) } else { Err(Status::unavailable("this server is a standby")) }
    };
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(InterceptorLayer::new(answer)).add_service(health);
    let server = server.add_service(service(state, None));
    Ok(server.serve_with_incoming(ReceiverStream::new(incoming)).await?)
}
