//! What an agent needs for a connection besides the server's address: the CA certificates to trust, and its own credentials.

use std::path::PathBuf;

use crate::token::Token;

/// The CA certificates to trust, and the agent's credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM file with the CA certificates to trust instead of the system's, for `https://`.
    pub ca: Option<PathBuf>,
    /// PEM file with the agent's own certificate, for a server that requires one.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of this certificate.
    pub key: Option<PathBuf>,
    /// The token that is sent with each request.
    pub token: Option<Token>,
}
