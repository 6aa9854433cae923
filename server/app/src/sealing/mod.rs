//! Compacts fragments into sealed blocks: of long attempts while they run, of others at their end.

pub(crate) mod at_end;
pub(crate) mod compaction;
pub(crate) mod start_time;
