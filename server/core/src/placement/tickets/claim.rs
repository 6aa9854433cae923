//! Limits on tickets, and which of them apply to a ticket.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use crate::domain::TicketClaim;

/// The scope of a limit: which tickets it counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey {
    /// All tickets.
    All,
    /// Tickets in a pool.
    Pool(String),
    /// Tickets for an architecture.
    Arch(String),
    /// Tickets of a kind.
    Kind(String),
    /// Tickets with a tag.
    Tag(String),
    /// Tickets of an owner.
    Owner(String),
}

/// How many tickets may hold slots at once. A scope that is not listed here is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketLimits {
    /// Limit for each owner that has no limit of its own.
    pub each_owner: Option<u32>,
    /// All other limits, by scope.
    pub other_limits: HashMap<LimitKey, u32>,
    /// Names of the existing pools: a ticket for another pool is never granted.
    pub pools: HashSet<String>,
}

impl TicketLimits {
    /// The limit of a scope; `None` if it is unlimited.
    pub fn limit_of(&self, counter: &LimitKey) -> Option<u32> {
        let otherwise = || match counter {
            LimitKey::Owner(_) => self.each_owner,
            // the operator removed the pool from the file, so its builders are gone
            LimitKey::Pool(name) if !name.is_empty() && !self.pools.contains(name) => Some(0),
            _ => None,
        };
        self.other_limits.get(counter).copied().or_else(otherwise)
    }
}

/// The scopes of all limits that count a claim, except its owner's; sorted, without repetitions.
pub(super) fn scopes(claim: &TicketClaim) -> Vec<LimitKey> {
    let mut places =
        vec![LimitKey::All, LimitKey::Pool(claim.pool.clone()), LimitKey::Kind(claim.kind.clone())];
    if !claim.arch.is_empty() {
        places.push(LimitKey::Arch(claim.arch.clone()));
    }
    places.extend(claim.tags.iter().cloned().map(LimitKey::Tag));
    places.sort_unstable();
    places.dedup();
    places
}

/// The scopes of all limits that count a claim.
pub(super) fn scopes_with_owner(claim: &TicketClaim) -> impl Iterator<Item = LimitKey> {
    scopes(claim).into_iter().chain([LimitKey::Owner(claim.owner.clone())])
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all tickets"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Arch(name) => write!(f, "architecture {name}"),
            Self::Kind(name) => write!(f, "kind {name}"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Owner(name) => write!(f, "owner {name}"),
        }
    }
}
