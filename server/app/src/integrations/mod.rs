//! Systems beside the server: each has its own words for what a build is, and they are turned into ours here.

pub mod gitlab;
pub(crate) mod keda;
pub mod kubernetes;
pub(crate) mod prometheus;
