//! What a build needs at different numbers of build jobs.

use super::{Bytes, CurveKnown, Millis, Rung};

/// What a build needs at different numbers of build jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobsCurve {
    /// How much is known about other numbers of jobs.
    pub known: CurveKnown,
    /// The least similar rung from which attempts were used.
    pub rung: Rung,
    /// One point for each number of jobs of interest, fewest jobs first. If no line could be fitted, there are points only for numbers that
    /// attempts ran with.
    pub points: Vec<JobsPoint>,
    /// Memory need at zero jobs, on the fitted line.
    pub base: Bytes,
    /// Memory need of each further job, on the fitted line.
    pub per_job: Bytes,
    /// The memory limit that the build should fit, if one is known.
    pub limit: Option<Bytes>,
    /// The highest number of jobs with which 95 % of the builds fit the limit, with room for file pages. `None` without a limit, if not
    /// even one job fits, or if too little is known.
    pub most_that_fit: Option<u32>,
    /// The number of jobs with the least memory multiplied by time, among those that fit the limit and are not above all tried numbers.
    pub cheapest: Option<u32>,
    /// One sentence that sums up the curve.
    pub reason: String,
}

/// What a build needs at one number of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobsPoint {
    /// Build jobs (-j).
    pub jobs: u32,
    /// Attempts with exactly this number; 0 if the point is interpolated.
    pub attempts: u32,
    /// Number of attempts with exactly this number of jobs that memory stopped.
    pub stopped: u32,
    /// Memory that half of the builds need. An attempt that memory stopped counts as a lower bound.
    pub need_p50: Bytes,
    /// Memory that 95 % of the builds need.
    pub need_p95: Bytes,
    /// Wall time that half of the builds need; 0 if it is not known.
    pub wall_p50: Millis,
    /// GiB x h of one build: `need_p95` held for `wall_p50`.
    pub held_gib_hours: f64,
}
