//! Build jobs: which `-j` the sizes are for, and what other numbers of jobs say about it.
//!
//! Memory grows with the jobs that run side by side (measured: two compiles need 323 MB at `-j1` and 603 MB at `-j2`).
//! The slope is the median of the slopes between pairs of attempts (Theil-Sen: a third of them may be wild), from
//! attempts of the same package. A slope below zero is noise.

use super::{Settings, pool::Pool};
use crate::domain::{Basis, Brief, Key, Quantity, Rung};

/// Attempts that are compared in pairs, newest first: 24 give at most 276 pairs.
const COMPARED: usize = 24;
/// Numbers of jobs that are kept apart when they are counted.
const DISTINCT: usize = 16;

/// The build jobs to plan for: asked for, else seen most, else the default.
pub(super) fn choose(pool: &Pool<'_>, key: &Key, settings: &Settings) -> Quantity {
    let basis = |rung, attempts, bound: &str| Basis {
        rung,
        attempts,
        quantile: 0.0,
        margin: 1.0,
        bound: bound.to_owned(),
    };
    if let Some(asked) = key.hints.build_jobs.filter(|jobs| *jobs > 0) {
        return Quantity { value: u64::from(asked), basis: basis(pool.main_rung(), 0, "asked for") };
    }
    let mut seen: Vec<(u32, f64, u32, Rung)> = Vec::new();
    for used in pool.used.iter().filter(|used| !used.fact.censored && used.fact.jobs > 0) {
        let jobs = used.fact.jobs;
        let room = seen.len() < DISTINCT;
        match seen.iter_mut().find(|entry| entry.0 == jobs) {
            Some(entry) => {
                entry.1 += used.weight;
                entry.2 += 1;
            }
            None if room => seen.push((jobs, used.weight, 1, used.rung)),
            None => {}
        }
    }
    // the smaller number wins a tie: it needs less
    let most = seen.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    match most {
        Some((jobs, _, attempts, rung)) => {
            Quantity { value: u64::from(jobs), basis: basis(rung, attempts, "") }
        }
        None => Quantity {
            value: u64::from(settings.build_jobs.max(1)),
            basis: basis(Rung::Default, 0, "default"),
        },
    }
}

/// Shifts the need of attempts at other numbers of jobs to `jobs`. Returns bytes per job, 0 if that is not known.
pub(super) fn adjust(pool: &mut Pool<'_>, jobs: u64) -> f64 {
    let slope = bytes_per_job(pool);
    if slope <= 0.0 {
        return 0.0;
    }
    let asked = f64::from(u32::try_from(jobs).unwrap_or(u32::MAX));
    for used in &mut pool.used {
        let had = f64::from(used.fact.jobs);
        if used.fact.jobs == 0 || (asked - had).abs() < 1.0 {
            continue;
        }
        // a part of the need belongs to no job, so it never changes by more than the jobs do
        let need = used.need.exp2();
        let most = need * (asked / had);
        let shifted = need + slope * (asked - had);
        used.need = if asked > had { shifted.min(most) } else { shifted.max(most) }.log2();
    }
    slope
}

fn bytes_per_job(pool: &Pool<'_>) -> f64 {
    let package = pool.used.iter().filter(|used| used.rung >= Rung::Package && !used.fact.censored);
    let tried: Vec<(f64, &Brief)> = package
        .filter(|used| used.fact.jobs > 0)
        .map(|used| (f64::from(used.fact.jobs), used.fact.brief.as_ref()))
        .take(COMPARED)
        .collect();
    let Some((first, _)) = tried.first() else { return 0.0 };
    if tried.iter().all(|(jobs, _)| (jobs - first).abs() < 1.0) {
        return 0.0;
    }
    // attempts that differ in nothing else say most
    let alike = slopes(&tried, alike);
    median(if alike.is_empty() { slopes(&tried, |_, _| true) } else { alike }).max(0.0)
}

fn slopes(tried: &[(f64, &Brief)], comparable: impl Fn(&Key, &Key) -> bool) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (n, (jobs, a)) in tried.iter().enumerate() {
        for (others, b) in tried.iter().skip(n + 1) {
            if (jobs - others).abs() >= 1.0 && comparable(&a.key, &b.key) {
                slopes.push((a.need_peak.as_f64() - b.need_peak.as_f64()) / (jobs - others));
            }
        }
    }
    slopes
}

fn alike(a: &Key, b: &Key) -> bool {
    a.version == b.version
        && a.variants == b.variants
        && a.compiler == b.compiler
        && a.compiler_version == b.compiler_version
        && a.arch == b.arch
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
