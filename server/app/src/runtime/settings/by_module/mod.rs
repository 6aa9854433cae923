//! Settings of single modules as plain values. The rooms (`access`, `ci` and others)
//! import them from here.

pub(crate) mod admission;
pub(crate) mod gitlab;
pub(crate) mod privacy;
