//! Target of log lines about refused callers and administrative actions.

/// Used in operators' filters and alerts, so it must not change with the names of crates.
pub(crate) const AUDIT: &str = "plimsoll_server::audit";
