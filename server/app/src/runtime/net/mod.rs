//! Connections: how many there may be, how they are served and for how long, what each may cost, TLS, answers that clients do not take, and
//! what the server asks of others.

pub(crate) mod accept;
pub(crate) mod body_timeout;
pub(crate) mod files;
pub(crate) mod h2_abuse;
pub(crate) mod outgoing;
pub(crate) mod response_budget;
pub(crate) mod serve;
pub(crate) mod tls;
pub(crate) mod xml;
