//! The way to one server: its address, the token for it, and the network, which tests replace.

use std::{fmt::Debug, pin::Pin, sync::Arc};

use tonic::transport::{Channel, Endpoint, Error};

use crate::{channel::name, token::Token};

/// A server's address, and the network that leads to it.
#[derive(Debug, Clone)]
pub(super) struct ServerRoute {
    endpoint: Endpoint,
    token: Option<Token>,
    network: Arc<dyn Network>,
}

/// A connection that comes about, or not.
pub(super) type ConnectFuture<'a> = Pin<Box<dyn Future<Output = Result<Channel, Error>> + Send + 'a>>;

/// What makes connections. There is one; tests put a simulated one in its place.
pub(super) trait Network: Debug + Send + Sync {
    /// Connects to a server.
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> ConnectFuture<'a>;
}

/// The network that the machine is in.
#[derive(Debug)]
pub(super) struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> ConnectFuture<'a> {
        Box::pin(endpoint.connect())
    }
}

impl ServerRoute {
    /// A route over `network`.
    pub(super) fn new(endpoint: Endpoint, token: Option<Token>, network: Arc<dyn Network>) -> Self {
        Self { endpoint, token, network }
    }

    /// What says who comes.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Channel, Error> {
        self.network.connect(&self.endpoint).await
    }

    /// The server's address, for people.
    pub(super) fn server(&self) -> String {
        name(&self.endpoint)
    }
}
