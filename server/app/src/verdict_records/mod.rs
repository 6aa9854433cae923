//! Verdicts as they are on disk: those that were given on one attempt, the cause that they find, and the jobs that memory ended.

pub(crate) mod causes;
pub(crate) mod jobs_short_of_memory;
pub(crate) mod known;
