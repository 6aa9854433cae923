//! Connections: their limits, how they are served and for how long, TLS, answers that clients do
//! not read, and the server's own requests to others.

pub(crate) mod accept;
pub(crate) mod body_timeout;
pub(crate) mod files;
pub(crate) mod h2_abuse;
pub(crate) mod outgoing;
pub(crate) mod response_budget;
pub(crate) mod serve;
pub(crate) mod tls;
pub(crate) mod xml;
