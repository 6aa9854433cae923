//! Build jobs: which `-j` the sizes are for, and how needs at other numbers of jobs are adjusted.
//!
//! Memory grows with the jobs that run at the same time (measured: two compiles need 323 MB at `-j1` and 603 MB at `-j2`). The module
//! `curve` computes how much each job adds.

use plimsoll_proto::reasons::SizeBound;

use super::{Settings, similar::SimilarAttempts};
use crate::domain::{Basis, Key, Quantity, Rung};

/// Most distinct numbers of jobs that are counted.
const MAX_JOB_NUMBERS: usize = 16;

/// The build jobs to plan for: the requested number, else the most common one, else the default.
pub(super) fn choose_jobs(similar: &SimilarAttempts<'_>, key: &Key, settings: &Settings) -> Quantity {
    if let Some(asked) = key.hints.build_jobs.filter(|jobs| *jobs > 0) {
        return Quantity {
            value: u64::from(asked),
            basis: Basis::of(similar.main_rung(), 0, SizeBound::AskedFor),
        };
    }
    let mut seen: Vec<(u32, f64, u32, Rung)> = Vec::new();
    for used in similar.attempts.iter().filter(|used| !used.observation.censored && used.observation.jobs > 0)
    {
        let jobs = u32::from(used.observation.jobs);
        let room = seen.len() < MAX_JOB_NUMBERS;
        match seen.iter_mut().find(|entry| entry.0 == jobs) {
            Some(entry) => {
                entry.1 += used.weight;
                entry.2 += 1;
            }
            None if room => seen.push((jobs, used.weight, 1, used.rung)),
            None => {}
        }
    }
    // the smaller number of jobs wins a tie, because it needs less
    let most = seen.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    match most {
        Some((jobs, _, attempts, rung)) => {
            let is_usual = seen.iter().all(|other| other.0 == *jobs || other.2 < *attempts);
            let bound = if is_usual { SizeBound::None } else { SizeBound::MostWeight };
            Quantity { value: u64::from(*jobs), basis: Basis::of(*rung, *attempts, bound) }
        }
        None => Quantity {
            value: u64::from(settings.build_jobs.max(1)),
            basis: Basis::of(Rung::Default, 0, SizeBound::Default),
        },
    }
}

/// Adjusts the needs of attempts that ran with other numbers of jobs to `jobs`; `slope` is bytes for each job.
pub(super) fn adjust_to_jobs(similar: &mut SimilarAttempts<'_>, slope: f64, jobs: u64) {
    if slope <= 0.0 {
        return;
    }
    let asked = u32::try_from(jobs).unwrap_or(u32::MAX);
    for used in &mut similar.attempts {
        let had = u32::from(used.observation.jobs);
        if had > 0 && had != asked {
            used.need = need_at_jobs(used.need.exp2(), slope, had, asked).log2();
        }
    }
}

/// Converts `need` from `had` jobs to `asked` jobs. Part of the need is independent of jobs, so the need changes at most by the ratio of
/// the numbers of jobs.
pub(super) fn need_at_jobs(need: f64, slope: f64, had: u32, asked: u32) -> f64 {
    let (had, asked) = (f64::from(had.max(1)), f64::from(asked.max(1)));
    let most = need * (asked / had);
    let shifted = need + slope * (asked - had);
    if asked > had { shifted.min(most) } else { shifted.max(most) }
}

/// Converts `wall` from `had` jobs to `asked` jobs by Amdahl's law (1967): a serial part, and a part that the jobs share. The time changes
/// at most by the ratio of the numbers of jobs.
pub(super) fn wall_at_jobs(wall: f64, shared: f64, had: u32, asked: u32) -> f64 {
    let (had, asked) = (f64::from(had.max(1)), f64::from(asked.max(1)));
    let most = wall * (had / asked);
    let shifted = wall + shared * (1.0 / asked - 1.0 / had);
    if asked > had { shifted.max(most) } else { shifted.min(most) }
}

/// Whether two keys differ only in hints and in fields that do not distinguish builds of a package.
pub(super) fn is_same_build(a: &Key, b: &Key) -> bool {
    a.distinguishing_texts() == b.distinguishing_texts()
}
