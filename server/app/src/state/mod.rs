//! State shared by the task that writes and all request handlers: pools in force, tickets,
//! and what verdicts follow from besides the history.

pub(crate) mod pools;
pub(crate) mod tickets;
pub(crate) mod verdict_engine;
