//! What an agent needs to know of a server besides its address: whom to trust there, and what to show.

use std::path::PathBuf;

use crate::token::Token;

/// Whom to trust, and what says who comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM file with the CA certificates to trust instead of the system's, for `https://`.
    pub ca: Option<PathBuf>,
    /// PEM file with the agent's own certificate, for a server that asks for one.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of this certificate.
    pub key: Option<PathBuf>,
    /// What says who comes, in each request.
    pub token: Option<Token>,
}
