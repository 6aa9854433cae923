//! Other systems: converts their representation of builds to and from ours.

pub mod gitlab;
pub(crate) mod keda;
pub mod kubernetes;
pub(crate) mod prometheus;
