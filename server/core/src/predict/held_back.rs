//! CPU of builds that their CPU limit held back. They used less than they wanted, so their use is a lower bound: it counts with one step
//! more, and the next attempts show whether that is enough.
//!
//! A step is taken again only while the last one shortened the build. So CPU does not climb for builds that take all the CPU they get and
//! are no faster with it. Untrusted attempts take no step.

use plimsoll_proto::{figures, reasons::SizeBound};

use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{Rung, median};

/// One step, as a logarithm to base 2: twice the CPU. In a model of Amdahl's law (1967) with 1 to 32 jobs and 2 to 50 % of serial work, the
/// fifth build from 2 cores on takes 1.00 times as long as without a limit; with steps of 1.5 it takes 1.09 times, with 1.25 1.35 times.
const STEP: f64 = 1.0;
/// Longest time after a step that helped, as a share of the time before. By Amdahl's law, a doubling gains as much as all further ones
/// together, so at most 5 % are left when it gains less than 5 %.
const SHORTENED: f64 = 0.95;
/// Limits that differ by less are the same, octaves.
const SAME: f64 = 0.25;

/// The highest limit that held attempts back, as a logarithm to base 2 of thousandths of a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBack {
    limit: f64,
    /// The build jobs that the attempts had.
    jobs: u64,
    /// Whether more CPU than the limit is worth a try.
    is_step_due: bool,
}

impl HeldBack {
    /// Looks at the trusted attempts of the same build, in any version, with this number of build jobs; `None` if none was held back.
    pub(super) fn of(similar: &SimilarAttempts<'_>, jobs: u64) -> Option<Self> {
        let held: Vec<[f64; 2]> = similar
            .of_package()
            .filter(|used| used.rung >= Rung::NoVersion && is_held_back(used) && has_jobs(used, jobs))
            .map(|used| [used.observation.rates[0], used.observation.rates[2]].map(f64::from))
            .collect();
        let highest = |below: f64| {
            let limits = held.iter().map(|[_, limit]| *limit);
            limits.filter(|limit| *limit < below).max_by(f64::total_cmp)
        };
        let time_at = |at: f64| {
            let there = held.iter().filter(|[_, limit]| (limit - at).abs() < SAME);
            median(there.map(|[time, _]| *time).collect())
        };
        let limit = highest(f64::INFINITY)?;
        let before = highest(limit - SAME);
        let is_step_due = before.is_none_or(|before| time_at(limit) < time_at(before) + SHORTENED.log2());
        Some(Self { limit, jobs, is_step_due })
    }

    /// What to add to the logarithm of an attempt's use. NaN with another number of build jobs, which uses another number of cores.
    pub(super) fn step(self, used: &WeightedAttempt<'_>) -> f64 {
        let is_due = self.is_step_due || f64::from(used.observation.rates[2]) < self.limit - SAME;
        if !has_jobs(used, self.jobs) {
            return f64::NAN;
        }
        if is_due && used.rung >= Rung::NoVersion && is_held_back(used) { STEP } else { 0.0 }
    }

    /// What decided a number from this attempt.
    pub(super) fn bound(self, used: &WeightedAttempt<'_>) -> SizeBound {
        let cores = f64::from(used.observation.rates[2]).exp2() / 1000.0;
        if self.step(used) > 0.0 { SizeBound::HeldBack(figures::cores(cores)) } else { SizeBound::None }
    }

    /// The clause of the reason.
    pub(super) fn note(self) -> String {
        let cores = figures::cores_named(self.limit.exp2() / 1000.0);
        let then = if self.is_step_due { "so one step more" } else { "and the last step made it no faster" };
        format!("; CPU: throttled for 15 % or more of what it could have used at {cores}, {then}")
    }
}

/// Whether the attempt ran with this number of build jobs, or its number is not known.
fn has_jobs(used: &WeightedAttempt<'_>, jobs: u64) -> bool {
    let had = u64::from(used.observation.jobs);
    had == 0 || had == jobs
}

fn is_held_back(used: &WeightedAttempt<'_>) -> bool {
    let brief = &used.observation.brief;
    brief.is_held_back() && !brief.untrusted && !used.observation.rates[2].is_nan()
}
