//! How to reach one server: its address, the token for it, and the function that connects, which tests replace.

use std::pin::Pin;

use tonic::transport::{Channel, Endpoint, Error};

use crate::{channel::name, token::Token};

/// A server's address, the token for it, and the function that connects.
#[derive(Debug, Clone)]
pub(super) struct ServerRoute {
    endpoint: Endpoint,
    token: Option<Token>,
    connect: Connect,
}

/// The future of a connection attempt.
pub(super) type ConnectFuture = Pin<Box<dyn Future<Output = Result<Channel, Error>> + Send>>;

/// A function that connects to a server.
pub(super) type Connect = fn(Endpoint) -> ConnectFuture;

/// Connects over the network of the machine.
pub(super) fn over_tcp(endpoint: Endpoint) -> ConnectFuture {
    Box::pin(async move { endpoint.connect().await })
}

impl ServerRoute {
    /// Creates a route on which `connect` makes the connections.
    pub(super) fn new(endpoint: Endpoint, token: Option<Token>, connect: Connect) -> Self {
        Self { endpoint, token, connect }
    }

    /// The token that the agent sends to the server.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    pub(super) async fn connect(&self) -> Result<Channel, Error> {
        (self.connect)(self.endpoint.clone()).await
    }

    /// The server's address, for messages to people.
    pub(super) fn server(&self) -> String {
        name(&self.endpoint)
    }
}
