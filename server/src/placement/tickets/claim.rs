//! What a ticket wants, and the limits that count it.

use std::{collections::HashMap, fmt};

use crate::placement::Kind;

/// What a ticket wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who wants it.
    pub owner: String,
    /// In which pool.
    pub pool: String,
    /// On which processors; empty if it does not matter.
    pub arch: String,
    /// Why it is built.
    pub kind: Kind,
    /// What it needs beside that, each once.
    pub tags: Vec<String>,
}

/// Something that is limited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// All tickets.
    All,
    /// Those in a pool.
    Pool(String),
    /// Those on these processors.
    Arch(String),
    /// Those of a kind.
    Kind(Kind),
    /// Those with a tag.
    Tag(String),
    /// Those of an owner.
    Owner(String),
}

/// How many tickets may hold places at once. What is not named has no limit.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Each owner, where it is not named itself.
    pub each_owner: Option<u32>,
    /// Everything else.
    pub most: HashMap<Counter, u32>,
}

impl Limits {
    /// The limit for something.
    pub fn of(&self, counter: &Counter) -> Option<u32> {
        let each = || if matches!(counter, Counter::Owner(_)) { self.each_owner } else { None };
        self.most.get(counter).copied().or_else(each)
    }
}

impl Claim {
    /// Everything that counts it, whoever it is of.
    pub(super) fn places(&self) -> Vec<Counter> {
        let mut places = vec![Counter::All, Counter::Pool(self.pool.clone()), Counter::Kind(self.kind)];
        if !self.arch.is_empty() {
            places.push(Counter::Arch(self.arch.clone()));
        }
        places.extend(self.tags.iter().cloned().map(Counter::Tag));
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Everything that counts it.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        self.places().into_iter().chain([Counter::Owner(self.owner.clone())])
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all tickets"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Arch(name) => write!(f, "architecture {name}"),
            Self::Kind(kind) => write!(f, "kind {}", kind.as_str()),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Owner(name) => write!(f, "owner {name}"),
        }
    }
}
