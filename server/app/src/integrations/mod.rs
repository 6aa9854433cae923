//! Other systems: converts how they represent builds to our types, and our answers to their
//! formats.

pub mod gitlab;
pub(crate) mod keda;
pub mod kubernetes;
pub(crate) mod prometheus;
