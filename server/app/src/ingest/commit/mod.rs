//! Writes checked requests to disk: one commit is filled while another one is written.

mod in_flight;
pub(crate) mod pipeline;
pub(crate) mod staged;

pub(crate) use in_flight::CommitOutcome;
