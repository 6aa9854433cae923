//! Stored verdicts: those on one attempt, the cause that follows from them, and the jobs that ran
//! out of memory.

pub(crate) mod causes;
pub(crate) mod jobs_short_of_memory;
pub(crate) mod known;
