//! How names are looked up and connections are made.

use std::{io, net::SocketAddr, pin::Pin};

use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint, Error};

use crate::channel::CONNECT_PATIENCE;

/// A future that another task can run.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How names are looked up and connections are made. Tests replace it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// The addresses of a host with a port.
    pub(crate) resolve: fn(String, u16) -> Pending<io::Result<Vec<SocketAddr>>>,
    /// Connects to one of the addresses of an endpoint.
    pub(crate) connect: fn(Endpoint, SocketAddr) -> Pending<Result<Channel, Error>>,
}

/// The network of the machine.
pub(crate) const TCP: Network = Network {
    resolve: |host, port| Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) }),
    connect: |endpoint, address| {
        Box::pin(async move {
            let connector = tower::service_fn(move |_uri| open_tcp(address));
            endpoint.connect_with_connector(connector).await
        })
    },
};

async fn open_tcp(address: SocketAddr) -> io::Result<TokioIo<TcpStream>> {
    let stream = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}
