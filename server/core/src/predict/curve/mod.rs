//! A build at different numbers of build jobs: its memory, its time, and which `-j` to take.
//!
//! Attempts at different numbers of jobs give two lines (`tried`): memory is a part that belongs to no job and a part for each;
//! time is a part that does not get shorter and a part that the jobs share (Amdahl, "Validity of the single processor
//! approach", 1967). Attempts are moved along them to the jobs that are asked about, so that what builds differ in anyway
//! stays. Where enough attempts ran at just those jobs, they alone speak. Where the attempts tell nothing about other numbers,
//! none are made up.

mod tried;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::tried::TriedJobs;
use super::{memory::with_pages, similar::SimilarAttempts};
use crate::domain::{Bytes, CurveKnown, JobsCurve, JobsPoint, Millis, Rung};

/// How far a line is followed, in multiples of the most jobs that were tried.
const BEYOND: u32 = 2;
/// No more jobs are looked at: as the wire contract has it for a key.
const MOST_JOBS: u32 = plimsoll_proto::limits::BUILD_JOBS;
/// Points at most: those that were tried, powers of two between and beyond, the ones asked for and found.
const POINTS: usize = 32;

/// What attempts at different numbers of jobs say, as lines: the same for a prediction as for the curve.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobsLines {
    /// Bytes for each job more, 0 if there is no line.
    pub(super) memory: f64,
    /// Milliseconds that the jobs share: one job takes all of them, two take half. 0 if that is not known.
    pub(super) shared: f64,
}

/// The lines of the curve.
pub(super) fn lines(similar: &SimilarAttempts<'_>) -> JobsLines {
    let mut with_jobs =
        similar.used.iter().filter(|used| used.rung.is_of_build() && used.observation.jobs > 0);
    let first = with_jobs.next().map(|used| used.observation.jobs);
    if with_jobs.all(|used| Some(used.observation.jobs) == first) {
        return JobsLines::default();
    }
    let tried = TriedJobs::judged(similar);
    JobsLines { memory: tried.memory, shared: tried.shared }
}

/// The curve. `usual`: the jobs that a prediction would name.
pub(super) fn draw(similar: &SimilarAttempts<'_>, usual: u32, limit: Option<Bytes>) -> JobsCurve {
    let tried = TriedJobs::of(similar);
    let mut curve = JobsCurve {
        known: tried.known,
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
    if matches!(tried.known, CurveKnown::Flat | CurveKnown::Line) {
        curve.per_job = Bytes::from_f64(tried.memory);
        curve.base = Bytes::from_f64((tried.need_at(1)[0] - tried.memory).max(0.0));
        let end = most.saturating_mul(BEYOND).min(MOST_JOBS);
        curve.most_that_fit = limit.and_then(|limit| most_that_fit(&tried, limit, end));
        let powers = (0..u32::BITS).map_while(|n| 1_u32.checked_shl(n)).take_while(|jobs| *jobs <= end);
        shown.extend(powers);
        shown.extend(curve.most_that_fit);
        shown.extend(Some(usual).filter(|jobs| *jobs <= end));
    }
    curve.points = shown.into_iter().take(POINTS).map(|jobs| point(&tried, jobs)).collect();
    if matches!(tried.known, CurveKnown::Flat | CurveKnown::Line) {
        curve.cheapest = cheapest(&curve, most);
    }
    curve.reason = words::reason(&tried, &curve, usual, most);
    curve
}

/// Whether 95 % of the builds fit `limit`, with room for file pages.
fn fits(tried: &TriedJobs<'_>, jobs: u32, limit: Bytes) -> bool {
    with_pages(Bytes::from_f64(tried.need_at(jobs)[1])) <= limit
}

/// Between two numbers of jobs that speak for themselves, which say what was measured whatever the line says, by halves: along
/// the line more jobs never need less.
fn most_that_fit(tried: &TriedJobs<'_>, limit: Bytes, end: u32) -> Option<u32> {
    let (mut fitting, mut above) = (0, end.saturating_add(1));
    for jobs in tried.counts().into_iter().filter(|jobs| tried.speaks_alone(*jobs)) {
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

/// The point that holds least memory over its time; the smaller number of jobs wins a tie. Beyond what was tried a time is a guess.
fn cheapest(curve: &JobsCurve, most_tried: u32) -> Option<u32> {
    let fitting = |point: &&JobsPoint| match (curve.limit, curve.most_that_fit) {
        (Some(_), most) => most.is_some_and(|most| point.jobs <= most),
        (None, _) => true,
    };
    let known = curve.points.iter().filter(|point| point.jobs <= most_tried && point.wall_p50.0 > 0);
    let least = known.filter(fitting).min_by(|a, b| a.held_gib_hours.total_cmp(&b.held_gib_hours));
    least.map(|point| point.jobs)
}

/// Numbers of jobs, fewest first.
type JobCounts = BTreeSet<u32>;
