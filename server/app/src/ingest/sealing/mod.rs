//! Compacts fragments of long attempts into sealed blocks while they run, and estimates when an attempt started.

pub(crate) mod compaction;
pub(crate) mod start_time;
