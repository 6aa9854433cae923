//! What a CI system reports about the end of an attempt that it ran.

use super::{AttemptId, Cause, Reporter};

/// Final status of a job in a CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// The job passed.
    Succeeded,
    /// The job failed.
    Failed,
    /// A person canceled the job.
    Canceled,
}

/// The end of a job, as a CI system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedOutcome {
    /// The ids that an agent may have given the job's attempt, at most two; the likeliest comes first.
    pub attempts: Vec<AttemptId>,
    /// How the job ended.
    pub end: JobStatus,
    /// The failure reason as the CI system spells it; empty if the CI system gave none.
    pub reason: String,
    /// The cause proven by a verdict; it takes precedence over `reason`.
    pub cause: Option<Cause>,
    /// Whether the job found its work done already and built nothing.
    pub unneeded: bool,
    /// The caller that reported it. The report applies only to attempts that this caller may report on.
    pub by: Reporter,
}
