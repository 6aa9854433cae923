//! State that the writer and all ways in share: rules and pools in force, tickets.

pub(crate) mod pools;
pub(crate) mod tickets;
pub(crate) mod verdict_engine;
