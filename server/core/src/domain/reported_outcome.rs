//! What a CI system tells of the end of an attempt that it ran.

use super::{AttemptId, Cause, Reporter};

/// How a job ended, in the words of the CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// It did what it should.
    Succeeded,
    /// It did not.
    Failed,
    /// A person ended it.
    Canceled,
}

/// What a CI system tells of the end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedOutcome {
    /// The ids that an agent may have given to the job's attempt, likeliest first. At most two.
    pub attempts: Vec<AttemptId>,
    /// How it ended.
    pub end: JobStatus,
    /// Why, in the words of the CI system; empty if it did not say.
    pub reason: String,
    /// Why, as a verdict on all that is known proved it; counts before `reason`.
    pub cause: Option<Cause>,
    /// It found its work done already and built nothing.
    pub unneeded: bool,
    /// Who tells it: it counts for attempts that the reporter may speak of.
    pub by: Reporter,
}
