//! Computes the memory and time of a build at different numbers of build jobs, and the best `-j`.
//!
//! Attempts with different numbers of jobs define two lines (`tried`): memory is a constant and a part for each job; time is a serial part
//! and a part that the jobs share (Amdahl, "Validity of the single processor approach", 1967). Attempts are moved along these lines to the
//! requested number of jobs, so their other differences stay. Where enough attempts ran with exactly that number, only they are used. If
//! the attempts show nothing about other numbers, no line is used.

mod tried;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::tried::TriedJobs;
use super::{memory::with_pages, similar::SimilarAttempts};
use crate::domain::{Bytes, CurveKnown, JobsCurve, JobsPoint, Millis, Rung};

/// How far a line is extrapolated, in multiples of the highest number of jobs that was tried.
const MAX_EXTRAPOLATION: u32 = 2;
/// Highest number of jobs considered: the limit that the wire contract sets for a key.
const MAX_JOBS: u32 = plimsoll_proto::limits::BUILD_JOBS;
/// Most points of a curve: tried numbers, powers of two between and beyond them, the requested number and the results.
const POINTS: usize = 32;

/// The lines through attempts with different numbers of jobs, for predictions and for the curve.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobsLines {
    /// Slope of the memory line: bytes for each further job; 0 without a line.
    pub(super) memory: f64,
    /// Milliseconds of work that the jobs share: one job takes all of them, two take half. 0 if unknown.
    pub(super) shared: f64,
}

/// The lines through the attempts in `similar`.
pub(super) fn lines(similar: &SimilarAttempts<'_>) -> JobsLines {
    let mut with_jobs =
        similar.attempts.iter().filter(|used| used.rung.is_of_build() && used.observation.jobs > 0);
    let first = with_jobs.next().map(|used| used.observation.jobs);
    if with_jobs.all(|used| Some(used.observation.jobs) == first) {
        return JobsLines::default();
    }
    let tried = TriedJobs::judged(similar);
    JobsLines { memory: tried.memory, shared: tried.parallel_ms }
}

/// Computes the curve. `usual`: the number of jobs that a prediction would name.
pub(super) fn draw(similar: &SimilarAttempts<'_>, usual: u32, limit: Option<Bytes>) -> JobsCurve {
    let tried = TriedJobs::of(similar);
    let mut curve = JobsCurve {
        known: tried.known_from,
        rung: tried.rung.unwrap_or(Rung::Default),
        points: Vec::new(),
        base: Bytes(0),
        per_job: Bytes(0),
        limit,
        most_that_fit: None,
        cheapest: None,
        reason: String::new(),
    };
    let counts = tried.counts();
    let most = counts.last().copied().unwrap_or(0);
    let mut shown = counts;
    if matches!(tried.known_from, CurveKnown::Flat | CurveKnown::Line) {
        curve.per_job = Bytes::from_f64(tried.memory);
        curve.base = Bytes::from_f64((tried.need_at(1)[0] - tried.memory).max(0.0));
        let end = most.saturating_mul(MAX_EXTRAPOLATION).min(MAX_JOBS);
        curve.most_that_fit = limit.and_then(|limit| most_that_fit(&tried, limit, end));
        let powers = (0..u32::BITS).map_while(|n| 1_u32.checked_shl(n)).take_while(|jobs| *jobs <= end);
        shown.extend(powers);
        shown.extend(curve.most_that_fit);
        shown.extend(Some(usual).filter(|jobs| *jobs <= end));
    }
    curve.points = shown.into_iter().take(POINTS).map(|jobs| point(&tried, jobs)).collect();
    if matches!(tried.known_from, CurveKnown::Flat | CurveKnown::Line) {
        curve.cheapest = cheapest(&curve, most);
    }
    curve.reason = words::reason(&tried, &curve, usual, most);
    curve
}

/// Whether 95 % of the builds at this number of jobs fit `limit`, with room for file pages.
fn fits(tried: &TriedJobs<'_>, jobs: u32, limit: Bytes) -> bool {
    with_pages(Bytes::from_f64(tried.need_at(jobs)[1])) <= limit
}

/// The highest number of jobs that fits `limit`, found by binary search along the line, on which more jobs never need less. Numbers at
/// which enough attempts ran are checked apart, because there the measured values are used instead of the line.
fn most_that_fit(tried: &TriedJobs<'_>, limit: Bytes, end: u32) -> Option<u32> {
    let (mut fitting, mut above) = (0, end.saturating_add(1));
    for jobs in tried.counts().into_iter().filter(|jobs| tried.uses_only_tried_at(*jobs)) {
        if !fits(tried, jobs, limit) {
            above = jobs;
            break;
        }
        fitting = jobs;
    }
    while above - fitting > 1 {
        let middle = u32::midpoint(fitting, above);
        if fits(tried, middle, limit) {
            fitting = middle;
        } else {
            above = middle;
        }
    }
    (fitting > 0).then_some(fitting)
}

fn point(tried: &TriedJobs<'_>, jobs: u32) -> JobsPoint {
    let [half, most] = tried.need_at(jobs).map(Bytes::from_f64);
    let wall = Millis::from_f64(tried.wall_at(jobs));
    let (attempts, stopped) = tried.count_at(jobs);
    JobsPoint {
        jobs,
        attempts,
        stopped,
        need_p50: half,
        need_p95: most,
        wall_p50: wall,
        held_gib_hours: most.gib_hours(wall),
    }
}

/// The number of jobs with the least memory multiplied by time; the lower number wins a tie. Numbers beyond the tried ones are left out,
/// because their time would be a guess.
fn cheapest(curve: &JobsCurve, most_tried: u32) -> Option<u32> {
    let fitting = |point: &&JobsPoint| match (curve.limit, curve.most_that_fit) {
        (Some(_), most) => most.is_some_and(|most| point.jobs <= most),
        (None, _) => true,
    };
    let known = curve.points.iter().filter(|point| point.jobs <= most_tried && point.wall_p50.0 > 0);
    let least = known.filter(fitting).min_by(|a, b| a.held_gib_hours.total_cmp(&b.held_gib_hours));
    least.map(|point| point.jobs)
}

/// A set of numbers of jobs, fewest first.
type JobCounts = BTreeSet<u32>;
