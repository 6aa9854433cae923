//! Target of log lines about refused callers and administrative actions.

/// The target of log lines about refused callers and administrative actions. Operators use it in
/// filters and alerts, so it must not change when modules or crates are renamed.
pub(crate) const AUDIT: &str = "plimsoll_server::audit";
