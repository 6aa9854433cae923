//! Settings of single modules as plain values: `access`, `integrations` and others take theirs from here, and build on them.

pub(crate) mod admission;
pub(crate) mod gitlab;
pub(crate) mod privacy;
