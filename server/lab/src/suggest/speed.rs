//! How long a package takes on each of two builders.
//!
//! A part of a build uses one core, the rest is shared by all (Amdahl, "Validity of the single processor approach", 1967):
//! `wall = serial + shared / jobs`. Both parts follow from attempts with different numbers of jobs, and from the CPU time of attempts with
//! one number: `cpu = serial + shared`. CPU time differs less from run to run than wall time does, so it goes first; where many attempts
//! show the curve too, the mean of both counts. Jobs beyond the cores of the builder do not count. A time that was measured often enough in both
//! pools goes before any of them.

use std::collections::BTreeMap;

use plimsoll_base::named_enum;
use plimsoll_core::domain::{Millis, median};

use super::{
    Builder, MIN_SUCCESSFUL_BUILDS, SuggestTerms,
    groups::{BuildGroup, RecordedRun},
};

/// Attempts with one number of jobs, or in one pool, from which on their median counts.
const MEDIAN_MIN_RUNS: usize = 3;
/// Attempts with each of two numbers of jobs, from which on their curve counts beside the CPU time.
const CURVE_MIN_RUNS: usize = 10;
/// An attempt had more cores than its builder if CPU time divided by wall time is above this multiple of the builder's cores. The tolerance
/// is needed because the two times do not cover quite the same span.
const CPU_TIME_TOLERANCE: f64 = 1.05;
/// Least ratio between the numbers of jobs of a curve: closer ones differ by less than builds do.
const MIN_JOBS_RATIO: f64 = 1.5;

named_enum! {
    /// What the times of a package are based on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SpeedBasis {
        /// Measured times of attempts in both pools.
        Measured => "measured",
        /// Times of attempts with different numbers of build jobs.
        Curve => "curve",
        /// CPU time of the attempts.
        CpuTime => "cpu",
    }
}

/// Median times of a package.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuilderTimes {
    /// Median time on a usual builder.
    pub normal: Millis,
    /// Median time on a powerful builder.
    pub powerful: Millis,
    /// What both times are based on.
    pub basis: SpeedBasis,
}

impl BuilderTimes {
    /// How many times as fast the powerful builder is.
    pub fn speedup(&self) -> f64 {
        self.normal.as_f64() / self.powerful.as_f64().max(1.0)
    }

    /// Time that the powerful builder saves; 0 if it is slower.
    pub fn saved(&self) -> Millis {
        self.normal.saturating_sub(self.powerful)
    }

    /// Additional price of a build on the powerful builder; negative if the build is cheaper there.
    pub fn cost_more(&self, terms: &SuggestTerms) -> f64 {
        terms.powerful.price_hour * self.powerful.hours() - terms.normal.price_hour * self.normal.hours()
    }
}

/// The two parts of a build's time, milliseconds.
#[derive(Debug, Clone, Copy)]
struct TimeParts {
    serial: f64,
    shared: f64,
}

impl TimeParts {
    fn at(self, jobs: u32) -> f64 {
        self.serial + self.shared / f64::from(jobs.max(1))
    }
}

/// The median times of a group's builds on both builders; `None` if fewer than [`MIN_SUCCESSFUL_BUILDS`] attempts succeeded, or nothing shows
/// how their time depends on the cores.
pub(super) fn times_of(group: &BuildGroup, terms: &SuggestTerms) -> Option<BuilderTimes> {
    let runs: Vec<RecordedRun> =
        group.runs.iter().map(|run| RecordedRun { jobs: jobs_at_once(run, terms), ..run.clone() }).collect();
    times(&runs, parts_of(&runs), terms)
}

/// How many build jobs of an attempt can have run at once: at most as many as its builder has cores (for another pool than the two: the
/// cores of a usual builder). All jobs of the attempt count if its CPU time shows that it had more cores, or if neither pool nor CPU time
/// is known.
fn jobs_at_once(run: &RecordedRun, terms: &SuggestTerms) -> u32 {
    let SuggestTerms { normal, powerful, .. } = terms;
    let cores = if run.pool == powerful.name { powerful.cores } else { normal.cores };
    let is_of_pools = [&normal.name, &powerful.name].contains(&&run.pool);
    let is_limited = if run.cpu.0 > 0 {
        run.cpu.as_f64() <= CPU_TIME_TOLERANCE * f64::from(cores) * run.wall.as_f64()
    } else {
        is_of_pools
    };
    if is_limited { run.jobs.min(cores) } else { run.jobs }
}

/// The times of a group on both builders, from measured times where there are enough, else from these parts.
fn times(
    runs: &[RecordedRun],
    parts: Option<(TimeParts, SpeedBasis)>,
    terms: &SuggestTerms,
) -> Option<BuilderTimes> {
    if u64::try_from(runs.len()).unwrap_or(u64::MAX) < MIN_SUCCESSFUL_BUILDS {
        return None;
    }
    let SuggestTerms { normal, powerful, .. } = terms;
    let measured = |builder: &Builder| {
        let walls: Vec<f64> =
            runs.iter().filter(|run| run.pool == builder.name).map(|run| run.wall.as_f64()).collect();
        (walls.len() >= MEDIAN_MIN_RUNS).then(|| median(walls))
    };
    let known = [measured(normal), measured(powerful)];
    let times = |normal: f64, powerful: f64, basis| BuilderTimes {
        normal: Millis::from_f64(normal),
        powerful: Millis::from_f64(powerful),
        basis,
    };
    if let [Some(on_normal), Some(on_powerful)] = known {
        return Some(times(on_normal, on_powerful, SpeedBasis::Measured));
    }
    let (parts, basis) = parts?;
    let (on_normal, on_powerful) = (parts.at(normal.cores), parts.at(powerful.cores));
    // what is measured on one of the two moves both times
    let factor = match known {
        [Some(measured), _] => measured / on_normal.max(1.0),
        [_, Some(measured)] => measured / on_powerful.max(1.0),
        _ => 1.0,
    };
    Some(times(on_normal * factor, on_powerful * factor, basis))
}

/// The parts of a build's time that depend on the cores and that do not, and what they are based on.
fn parts_of(runs: &[RecordedRun]) -> Option<(TimeParts, SpeedBasis)> {
    match (by_cpu(runs), by_jobs(runs, CURVE_MIN_RUNS)) {
        (Some(cpu), Some(curve)) => {
            let parts = TimeParts {
                serial: f64::midpoint(cpu.serial, curve.serial),
                shared: f64::midpoint(cpu.shared, curve.shared),
            };
            Some((parts, SpeedBasis::Curve))
        }
        (Some(cpu), None) => Some((cpu, SpeedBasis::CpuTime)),
        (None, _) => by_jobs(runs, MEDIAN_MIN_RUNS).map(|curve| (curve, SpeedBasis::Curve)),
    }
}

/// The parts of the time, computed from the medians of attempts with different numbers of jobs: the line of least squares over `1 / jobs`.
/// Each median has the weight of its attempts; long times differ more, so it is divided by the square of the time.
fn by_jobs(runs: &[RecordedRun], least_attempts: usize) -> Option<TimeParts> {
    let mut walls: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.jobs > 0) {
        walls.entry(run.jobs).or_default().push(run.wall.as_f64());
    }
    walls.retain(|_, walls| walls.len() >= least_attempts);
    let (least, most) = (*walls.keys().next()?, *walls.keys().next_back()?);
    if f64::from(most) < MIN_JOBS_RATIO * f64::from(least) {
        return None;
    }
    let mut points = Vec::new();
    for (jobs, walls) in walls {
        let attempts = Millis(u64::try_from(walls.len()).unwrap_or(u64::MAX)).as_f64();
        let wall = median(walls).max(1.0);
        points.push((1.0 / f64::from(jobs), wall, attempts / wall.powi(2)));
    }
    let all: f64 = points.iter().map(|(_, _, weight)| weight).sum();
    let mean =
        |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| of(point) * point.2).sum::<f64>() / all;
    let (mean_share, mean_wall) = (mean(|point| point.0), mean(|point| point.1));
    let rise: f64 =
        points.iter().map(|(x, wall, weight)| weight * (x - mean_share) * (wall - mean_wall)).sum();
    let run: f64 = points.iter().map(|(x, _, weight)| weight * (x - mean_share).powi(2)).sum();
    // neither part is negative, and together they take the mean time
    let shared = (rise / run).clamp(0.0, mean_wall / mean_share);
    Some(TimeParts { serial: mean_wall - shared * mean_share, shared })
}

/// The parts of the time, computed from the CPU time of attempts with more than one job. With `j` jobs `cpu - wall = shared x (1 - 1 / j)`.
fn by_cpu(runs: &[RecordedRun]) -> Option<TimeParts> {
    let parts = |run: &RecordedRun| {
        let (wall, jobs) = (run.wall.as_f64(), f64::from(run.jobs));
        let shared = (run.cpu.as_f64() - wall).max(0.0) / (1.0 - 1.0 / jobs);
        let shared = shared.min(wall * jobs);
        TimeParts { serial: wall - shared / jobs, shared }
    };
    let known: Vec<TimeParts> = runs.iter().filter(|run| run.jobs > 1 && run.cpu.0 > 0).map(parts).collect();
    (known.len() >= MEDIAN_MIN_RUNS).then(|| TimeParts {
        serial: median(known.iter().map(|parts| parts.serial).collect()),
        shared: median(known.iter().map(|parts| parts.shared).collect()),
    })
}
