//! Settings of the rooms above, as plain values: a room takes those that are its own from here, and adds what it does with them.

pub(crate) mod admission;
pub(crate) mod gitlab;
pub(crate) mod privacy;
