//! Admits the caller of an rpc or a path: it must have the role, and keep its bounds.

use std::sync::Arc;

use axum::http::HeaderValue;

use super::{net::Peer, permissions::Endpoint};
use crate::access::{
    guard::{Caller, Guard},
    identity::{Denied, ExceededBound, Role, Roles, UsageSlot},
};

/// Why a caller is not admitted.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    Denied(Denied),
    /// The answer is over all projects, and the caller may see some: what it can use instead.
    OverAll(String),
    Exceeded(ExceededBound),
}

impl From<Denied> for NotAdmitted {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<ExceededBound> for NotAdmitted {
    fn from(exceeded: ExceededBound) -> Self {
        Self::Exceeded(exceeded)
    }
}

/// A question as the guard sees it.
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// One of these is enough.
    pub(super) roles: Roles,
    pub(super) path: &'a str,
    pub(super) authorization: Option<&'a HeaderValue>,
    pub(super) peer: Option<&'a Peer>,
}

/// The caller, and its slot among the concurrent calls, which must be held until the answer is sent.
/// Errors: the caller is unknown, lacks the role, or exceeds a bound.
pub(super) fn admit(
    guard: &Guard,
    Asked { endpoint, roles, path, authorization, peer }: Asked<'_>,
) -> Result<(Caller, UsageSlot), NotAdmitted> {
    let names = peer.map(|peer| Arc::clone(&peer.names)).unwrap_or_default();
    let caller = Caller::admit(guard, authorization, names, roles, path)?;
    if endpoint.needs_name {
        guard.known(&caller, path)?;
    }
    if let Some(instead) = endpoint.instead.filter(|_| !caller.projects.is_all()) {
        let text = format!("{} may see only some projects: {instead}", caller.name);
        return Err(NotAdmitted::OverAll(text));
    }
    // the messages of agents have rates of their own, which are counted as messages arrive
    if !roles.has(Role::Agent) {
        guard.question(&caller)?;
    }
    let from = peer.map(|peer| peer.address.ip());
    let slot = caller.within(|caller| caller.call_place(from))?;
    Ok((caller, slot))
}
