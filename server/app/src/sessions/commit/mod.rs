//! What is checked goes to the disk: one commit that is filled, one on its way.

mod in_flight;
pub(crate) mod pipeline;
pub(crate) mod staged;

pub(crate) use in_flight::CommitOutcome;
