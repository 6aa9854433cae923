//! Connects other systems (GitLab, Kubernetes, KEDA, Prometheus): converts their data to our types,
//! and our answers to their formats.

pub mod gitlab;
pub(crate) mod keda;
pub mod kubernetes;
pub(crate) mod prometheus;
