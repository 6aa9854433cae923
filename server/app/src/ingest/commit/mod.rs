//! Writes checked requests to disk: one commit is filled while another one is written.

pub(crate) mod pipeline;
pub(crate) mod staged;

pub(crate) use pipeline::CommitOutcome;
