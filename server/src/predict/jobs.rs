//! Build jobs: which `-j` the sizes are for, and what other numbers of jobs say about it.
//!
//! Memory grows with the jobs that run side by side (measured: two compiles need 323 MB at `-j1` and 603 MB at `-j2`).
//! The slope is the median of the slopes between pairs of attempts (Theil-Sen: a third of them may be wild), from
//! attempts of the same package. A slope below zero is noise.

use super::{
    Settings,
    pool::{Pool, Used},
};
use crate::domain::{Basis, Key, Quantity, Rung};

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
        let jobs = u32::from(used.fact.jobs);
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
    let asked_jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
    let asked = f64::from(asked_jobs);
    for used in &mut pool.used {
        let had = f64::from(used.fact.jobs);
        if used.fact.jobs == 0 || (asked - had).abs() < 1.0 {
            continue;
        }
        used.need = shift(used.need.exp2(), slope, u32::from(used.fact.jobs), asked_jobs).log2();
    }
    slope
}

/// What `need` at `had` jobs is at `asked`. A part of the need belongs to no job, so it never changes by more than the jobs do.
pub(super) fn shift(need: f64, slope: f64, had: u32, asked: u32) -> f64 {
    let (had, asked) = (f64::from(had.max(1)), f64::from(asked.max(1)));
    let most = need * (asked / had);
    let shifted = need + slope * (asked - had);
    if asked > had { shifted.min(most) } else { shifted.max(most) }
}

fn bytes_per_job(pool: &Pool<'_>) -> f64 {
    let tried = tried(pool, |used| !used.fact.censored);
    slope(&tried, |a, b| {
        let more = f64::from(a.fact.jobs) - f64::from(b.fact.jobs);
        let need = |used: &Used<'_>| used.fact.brief.need_peak.as_f64();
        (need(a) - need(b)) / more
    })
}

/// Milliseconds that the jobs share: one job takes all of them, two take half. 0 if that is not known.
pub(super) fn shared_time(pool: &Pool<'_>) -> f64 {
    let tried = tried(pool, |used| used.fact.rates[0].is_finite());
    slope(&tried, |a, b| {
        let part = |used: &Used<'_>| 1.0 / f64::from(used.fact.jobs);
        let wall = |used: &Used<'_>| used.fact.brief.wall.as_f64();
        (wall(a) - wall(b)) / (part(a) - part(b))
    })
}

/// What `wall` at `had` jobs is at `asked`. Jobs share no more than all of the time, so it changes by no more than they do.
pub(super) fn wall_shift(wall: f64, shared: f64, had: u32, asked: u32) -> f64 {
    let (had, asked) = (f64::from(had.max(1)), f64::from(asked.max(1)));
    let most = wall * (had / asked);
    let shifted = wall + shared * (1.0 / asked - 1.0 / had);
    if asked > had { shifted.max(most) } else { shifted.min(most) }
}

/// The newest attempts of the package of which the jobs are known, most similar rung first.
fn tried<'p, 'h>(pool: &'p Pool<'h>, says: impl Fn(&Used<'h>) -> bool) -> Vec<&'p Used<'h>> {
    let package = pool.used.iter().filter(|used| used.rung >= Rung::Package && used.fact.jobs > 0);
    package.filter(|used| says(used)).take(COMPARED).collect()
}

/// The median of the slopes between pairs that differ in their jobs; 0 if it is below.
fn slope(tried: &[&Used<'_>], between: impl Fn(&Used<'_>, &Used<'_>) -> f64) -> f64 {
    let Some(first) = tried.first().map(|used| used.fact.jobs) else { return 0.0 };
    if tried.iter().all(|used| used.fact.jobs == first) {
        return 0.0;
    }
    let slopes = |comparable: fn(&Key, &Key) -> bool| {
        let mut slopes = Vec::new();
        for (n, a) in tried.iter().enumerate() {
            let others = tried.iter().skip(n + 1).filter(|b| b.fact.jobs != a.fact.jobs);
            let others = others.filter(|b| comparable(&a.fact.brief.key, &b.fact.brief.key));
            slopes.extend(others.map(|b| between(a, b)));
        }
        slopes
    };
    // attempts that differ in nothing else say most
    let alike = slopes(alike);
    median(if alike.is_empty() { slopes(|_, _| true) } else { alike }).max(0.0)
}

/// Whether two keys differ in nothing that tells builds of a package apart, but the hints.
pub(super) fn alike(a: &Key, b: &Key) -> bool {
    a.version == b.version
        && a.variants == b.variants
        && a.compiler == b.compiler
        && a.compiler_version == b.compiler_version
        && a.arch == b.arch
}

/// The middle one, 0 of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
