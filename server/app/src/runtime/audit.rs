//! The target of log lines that tell who was refused, and what was done to the server.

/// Spelled in the filters and alerts of operators, so it stays whatever the crates are called.
pub(crate) const AUDIT: &str = "plimsoll_server::audit";
