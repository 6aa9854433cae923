//! How to reach the server: the addresses of the servers, and the token for them.

use tonic::transport::Channel;

use crate::{
    servers::{NoServer, Servers},
    token::Token,
};

/// The addresses of the servers, and the token for them.
#[derive(Debug, Clone)]
pub(super) struct ServerRoute {
    servers: Servers,
    token: Option<Token>,
}

impl ServerRoute {
    /// Creates a route to the one of these servers that serves.
    pub(super) fn new(servers: Servers, token: Option<Token>) -> Self {
        Self { servers, token }
    }

    /// The token that the agent sends to the server.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    pub(super) async fn connect(&self) -> Result<Channel, NoServer> {
        self.servers.connect().await
    }

    /// Notes that the server that was found does not serve after all.
    pub(super) fn doubt(&self) {
        self.servers.doubt();
    }

    /// The server's address, for messages to people.
    pub(super) fn server(&self) -> String {
        self.servers.name()
    }
}
