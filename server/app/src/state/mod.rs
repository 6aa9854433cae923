//! State shared by the task that writes and all request handlers: rules and pools in force,
//! tickets.

pub(crate) mod pools;
pub(crate) mod tickets;
pub(crate) mod verdict_engine;
