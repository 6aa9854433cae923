//! How to reach one server: its address, its token, and the network, which tests replace.

use std::pin::Pin;

use tonic::transport::{Channel, Endpoint, Error};

use crate::{channel::name, token::Token};

/// A server's address, the token for it, and the network.
#[derive(Debug, Clone)]
pub(super) struct ServerRoute {
    endpoint: Endpoint,
    token: Option<Token>,
    connect: Connect,
}

/// The future of a connection attempt.
pub(super) type ConnectFuture = Pin<Box<dyn Future<Output = Result<Channel, Error>> + Send>>;

/// Connects to a server.
pub(super) type Connect = fn(Endpoint) -> ConnectFuture;

/// Connects over the network of the machine.
pub(super) fn over_tcp(endpoint: Endpoint) -> ConnectFuture {
    Box::pin(async move { endpoint.connect().await })
}

impl ServerRoute {
    /// A route over the network of `connect`.
    pub(super) fn new(endpoint: Endpoint, token: Option<Token>, connect: Connect) -> Self {
        Self { endpoint, token, connect }
    }

    /// The agent's token for the server.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Channel, Error> {
        (self.connect)(self.endpoint.clone()).await
    }

    /// The server's address, for messages to people.
    pub(super) fn server(&self) -> String {
        name(&self.endpoint)
    }
}
