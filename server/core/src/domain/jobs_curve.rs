//! What a build needs at different numbers of build jobs.

use super::{Bytes, Millis, Rung};

/// What a build needs at different numbers of build jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobsCurve {
    /// How much the attempts say.
    pub known: CurveKnown,
    /// The least similar rung that was heard.
    pub rung: Rung,
    /// The numbers of jobs of interest, fewest first. Where nothing is worked out, only those that were tried.
    pub points: Vec<JobsPoint>,
    /// Need that belongs to no job.
    pub base: Bytes,
    /// Need of one job more.
    pub per_job: Bytes,
    /// The limit that the jobs should fit, if one is known.
    pub limit: Option<Bytes>,
    /// The most jobs of which 95 % of the builds fit the limit, with room for file pages. `None` without a limit, if not even one
    /// job fits, or if the attempts do not tell.
    pub most_that_fit: Option<u32>,
    /// The jobs that hold least memory over their time, among those that were tried or lie between, and that fit the limit.
    pub cheapest: Option<u32>,
    /// All of it in words.
    pub reason: String,
}

/// How much attempts at different numbers of build jobs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveKnown {
    /// No attempt says how many jobs it had.
    Nothing,
    /// All attempts had the same number: nothing is known about others.
    OneCount,
    /// Attempts with more jobs did not need more in any regular way: nothing is worked out.
    Contradictory,
    /// The need does not depend on the jobs.
    Flat,
    /// The need grows with the jobs.
    Line,
}

/// A build at one number of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobsPoint {
    /// Build jobs (-j).
    pub jobs: u32,
    /// Attempts at exactly this number; 0 if the point is worked out from others.
    pub attempts: u32,
    /// Those of them that memory stopped.
    pub stopped: u32,
    /// Memory that half of the builds need. An attempt that memory stopped says "more than".
    pub need_p50: Bytes,
    /// Memory that 95 % of the builds need.
    pub need_p95: Bytes,
    /// Time that half of the builds take; 0 if it is not known.
    pub wall_p50: Millis,
    /// `need_p95` held for `wall_p50`.
    pub held_gib_hours: f64,
}
