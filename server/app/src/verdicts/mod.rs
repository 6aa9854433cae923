//! Whether a failed attempt should be retried: the rules in force, stored verdicts, and the causes that follow from them.

pub(crate) mod causes;
pub(crate) mod engine;
pub(crate) mod in_force;
pub(crate) mod jobs_short_of_memory;
pub(crate) mod known;
pub(crate) mod unmeasured;
