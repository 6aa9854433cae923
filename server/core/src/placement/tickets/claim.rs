//! The limits that count a ticket.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use crate::domain::TicketClaim;

/// Something that is limited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey {
    /// All tickets.
    All,
    /// Those in a pool.
    Pool(String),
    /// Those on these processors.
    Arch(String),
    /// Those of a kind.
    Kind(String),
    /// Those with a tag.
    Tag(String),
    /// Those of an owner.
    Owner(String),
}

/// How many tickets may hold places at once. What is not named has no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketLimits {
    /// Each owner, where it is not named itself.
    pub each_owner: Option<u32>,
    /// Everything else.
    pub most: HashMap<LimitKey, u32>,
    /// The pools that there are: none of its tickets gets a place in another one.
    pub pools: HashSet<String>,
}

impl TicketLimits {
    /// The limit for something.
    pub fn of(&self, counter: &LimitKey) -> Option<u32> {
        let otherwise = || match counter {
            LimitKey::Owner(_) => self.each_owner,
            // the operator has taken it out of the file: its builders are gone
            LimitKey::Pool(name) if !name.is_empty() && !self.pools.contains(name) => Some(0),
            _ => None,
        };
        self.most.get(counter).copied().or_else(otherwise)
    }
}

/// Everything that counts a claim, of any owner; sorted, each once.
pub(super) fn places(claim: &TicketClaim) -> Vec<LimitKey> {
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

/// Everything that counts a claim.
pub(super) fn counters(claim: &TicketClaim) -> impl Iterator<Item = LimitKey> {
    places(claim).into_iter().chain([LimitKey::Owner(claim.owner.clone())])
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
