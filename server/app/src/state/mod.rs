//! State shared by the task that writes and all request handlers: pools in force, tickets.

pub(crate) mod pools;
pub(crate) mod tickets;
