//! The attempts behind a curve, and the lines through them.

use super::JobCounts;
use crate::{
    domain::{CurveKnown, Key, Rung, median},
    predict::{
        distribution::BEYOND_FACTOR,
        jobs::{self, is_same_build},
        similar::{SimilarAttempts, WeightedAttempt},
    },
};

/// Attempts compared in pairs, newest of the most similar rung first: 24 give at most 276 pairs.
const COMPARED_ATTEMPTS: usize = 24;
/// Most different numbers of jobs that are compared.
const MAX_JOB_NUMBERS: usize = 16;
/// Successful attempts with exactly the requested number of jobs that make the line unnecessary.
const MIN_EXACT_ATTEMPTS: u32 = 5;
/// The need does not depend on the number of jobs if it changes by less than this share over all tried numbers: repetitions of one build
/// differ by up to 15 % where page cache is counted.
const FLAT_SHARE: f64 = 0.1;
/// Attempts do not show a line if their needs are further from the median than this share of it.
const NOISE_LIMIT: f64 = 0.2;
/// Least share of the pairs in which more jobs need more; below it there is no line.
const MIN_AGREEING_PAIRS: f64 = 0.75;

/// One attempt with its number of jobs.
#[derive(Debug, Clone, Copy)]
struct JobsObservation<'h> {
    jobs: u32,
    /// Bytes the attempt needed; if memory stopped it, the size that proved too small.
    need: f64,
    /// Wall time in milliseconds; NaN unless the attempt succeeded.
    wall: f64,
    weight: f64,
    was_stopped: bool,
    key: &'h Key,
}

impl<'h> JobsObservation<'h> {
    fn of_attempt(used: &WeightedAttempt<'h>) -> Self {
        let observation = used.observation;
        Self {
            jobs: u32::from(observation.jobs),
            need: used.need.exp2(),
            wall: if observation.rates[0].is_nan() { f64::NAN } else { observation.brief.wall.as_f64() },
            weight: used.weight,
            was_stopped: observation.censored,
            key: &observation.brief.key,
        }
    }
}

/// A need at a number of jobs, with its weight.
#[derive(Debug, Clone, Copy)]
struct NeedAtJobs {
    bytes: f64,
    weight: f64,
    jobs: u32,
}

impl NeedAtJobs {
    /// Weight 0 for an attempt that memory stopped, because its need is unknown ([`TriedJobs::needs_of`] moves its weight elsewhere).
    fn of(point: &JobsObservation<'_>) -> Self {
        let weight = if point.was_stopped { 0.0 } else { point.weight };
        Self { bytes: point.need, weight, jobs: point.jobs }
    }
}

/// Attempts with a known number of jobs, and the lines through them.
#[derive(Debug)]
pub(super) struct TriedJobs<'h> {
    points: Vec<JobsObservation<'h>>,
    /// The needs that `points` show, in no order.
    needs: Vec<NeedAtJobs>,
    /// The least similar rung that contributed attempts.
    pub(super) rung: Option<Rung>,
    pub(super) known_from: CurveKnown,
    /// Slope of the memory line: bytes for each further job.
    pub(super) memory: f64,
    /// Slope of the time line: milliseconds of work that the jobs share.
    pub(super) parallel_ms: f64,
    /// Whether no two compared attempts have otherwise equal keys, so that the lines also include other differences.
    pub(super) mixed: bool,
}

impl<'h> TriedJobs<'h> {
    /// Fits the lines, and computes the needs that the attempts show.
    pub(super) fn of(similar: &SimilarAttempts<'h>) -> Self {
        let mut tried = Self::judged(similar);
        tried.needs = tried.needs_of(&tried.points.iter().collect::<Vec<_>>());
        tried
    }

    /// Fits the lines to the most similar attempts: adds rung by rung until attempts with two different numbers of jobs are found.
    pub(super) fn judged(similar: &SimilarAttempts<'h>) -> Self {
        let with_jobs =
            || similar.attempts.iter().filter(|used| used.rung.is_of_build() && used.observation.jobs > 0);
        let mut tried = Self {
            points: Vec::new(),
            needs: Vec::new(),
            rung: None,
            known_from: CurveKnown::Nothing,
            memory: 0.0,
            parallel_ms: 0.0,
            mixed: false,
        };
        for rung in Rung::LADDER.into_iter().filter(|rung| rung.is_of_build()) {
            let here = with_jobs().filter(|used| used.rung == rung).map(JobsObservation::of_attempt);
            let before = tried.points.len();
            tried.points.extend(here);
            if tried.points.len() > before {
                tried.rung = Some(rung);
            }
            if tried
                .not_stopped()
                .any(|point| tried.not_stopped().next().is_some_and(|first| first.jobs != point.jobs))
            {
                break;
            }
        }
        tried.fit_line();
        tried
    }

    /// Attempts that memory did not stop.
    fn not_stopped(&self) -> impl Iterator<Item = &JobsObservation<'h>> {
        self.points.iter().filter(|point| !point.was_stopped)
    }

    fn fit_line(&mut self) {
        let Some(first) = self.not_stopped().next().map(|point| point.jobs) else { return };
        let (least, most) =
            self.not_stopped().fold((first, first), |(l, m), p| (l.min(p.jobs), m.max(p.jobs)));
        if least == most {
            self.known_from = CurveKnown::OneCount;
            return;
        }
        let range = f64::from(most) - f64::from(least);
        let compared: Vec<JobsObservation<'h>> =
            self.not_stopped().copied().take(COMPARED_ATTEMPTS).collect();
        let rise = |a: &JobsObservation<'_>, b: &JobsObservation<'_>| {
            let run = f64::from(a.jobs) - f64::from(b.jobs);
            (run.abs() >= 1.0).then(|| (a.need - b.need) / run)
        };
        let mut slopes = job_pairs(&compared, rise, |a, b| is_same_build(a.key, b.key));
        self.mixed = slopes.is_empty();
        if self.mixed {
            slopes = job_pairs(&compared, rise, |_, _| true);
        }
        let growing = slopes.iter().filter(|slope| **slope > 0.0).count();
        let agree = share(growing, slopes.len());
        // the estimator of Theil (1950) and Sen (1968): a few outliers do not change it
        let slope = median(slopes);
        let middle = median(compared.iter().map(|point| point.need).collect()).max(1.0);
        let spread = median(compared.iter().map(|point| (point.need - middle).abs()).collect()) / middle;
        self.known_from = if slope.abs() * range <= FLAT_SHARE * middle {
            if spread <= NOISE_LIMIT { CurveKnown::Flat } else { CurveKnown::Contradictory }
        } else if slope > 0.0 && agree >= MIN_AGREEING_PAIRS {
            CurveKnown::Line
        } else {
            CurveKnown::Contradictory
        };
        if self.known_from == CurveKnown::Line {
            self.memory = slope;
        }
        self.parallel_ms = self.shared_time(&compared);
    }

    fn shared_time(&self, compared: &[JobsObservation<'_>]) -> f64 {
        let fall = |a: &JobsObservation<'_>, b: &JobsObservation<'_>| {
            let run = 1.0 / f64::from(a.jobs) - 1.0 / f64::from(b.jobs);
            let slope = (a.wall - b.wall) / run;
            (a.jobs != b.jobs && slope.is_finite()).then_some(slope)
        };
        let slopes = job_pairs(compared, fall, |a, b| self.mixed || is_same_build(a.key, b.key));
        median(slopes).max(0.0)
    }

    /// The numbers of jobs that were tried, at most [`MAX_JOB_NUMBERS`].
    pub(super) fn counts(&self) -> JobCounts {
        let mut counts = JobCounts::new();
        for point in &self.points {
            if counts.len() < MAX_JOB_NUMBERS || counts.contains(&point.jobs) {
                counts.insert(point.jobs);
            }
        }
        counts
    }

    /// Number of attempts with exactly `jobs`, and how many of them memory stopped.
    pub(super) fn count_at(&self, jobs: u32) -> (u32, u32) {
        let here = self.points.iter().filter(|point| point.jobs == jobs);
        here.fold((0, 0), |(all, stopped), point| (all + 1, stopped + u32::from(point.was_stopped)))
    }

    /// Number of attempts over all numbers of jobs.
    pub(super) fn attempts(&self) -> usize {
        self.points.len()
    }

    /// The needs that the attempts show. An attempt that memory stopped shows only a lower bound: its weight goes to attempts with the same
    /// number of jobs that needed more. Without such attempts the need is taken as [`BEYOND_FACTOR`] times the bound.
    fn needs_of(&self, points: &[&JobsObservation<'h>]) -> Vec<NeedAtJobs> {
        let mut needs: Vec<NeedAtJobs> = points.iter().map(|point| NeedAtJobs::of(point)).collect();
        for stopped in points.iter().filter(|point| point.was_stopped) {
            let needs_more = |point: &JobsObservation<'_>| {
                !point.was_stopped
                    && jobs::need_at_jobs(point.need, self.memory, point.jobs, stopped.jobs) > stopped.need
            };
            let more: f64 = points.iter().filter(|p| needs_more(p)).map(|point| point.weight).sum();
            if more <= 0.0 {
                needs.push(NeedAtJobs {
                    bytes: stopped.need * BEYOND_FACTOR,
                    weight: stopped.weight,
                    jobs: stopped.jobs,
                });
                continue;
            }
            for (need, point) in needs.iter_mut().zip(points).filter(|(_, point)| needs_more(point)) {
                need.weight += stopped.weight * point.weight / more;
            }
        }
        needs
    }

    /// Median and 95th percentile of the memory need at `jobs`, in bytes.
    pub(super) fn need_at(&self, jobs: u32) -> [f64; 2] {
        let here: Vec<&JobsObservation<'_>> = self.points.iter().filter(|point| point.jobs == jobs).collect();
        let alone = self.uses_only_tried_at(jobs).then(|| self.needs_of(&here));
        let needs = alone.as_ref().unwrap_or(&self.needs).iter();
        let mut needs: Vec<(f64, f64)> = needs
            .map(|need| (jobs::need_at_jobs(need.bytes, self.memory, need.jobs, jobs), need.weight))
            .collect();
        needs.sort_by(|a, b| a.0.total_cmp(&b.0));
        [0.5, 0.95].map(|share| quantile(&needs, share))
    }

    /// Median wall time at `jobs`, in milliseconds; 0 if no attempt succeeded.
    pub(super) fn wall_at(&self, jobs: u32) -> f64 {
        let alone = self.uses_only_tried_at(jobs);
        let here =
            self.points.iter().filter(|point| (!alone || point.jobs == jobs) && point.wall.is_finite());
        let mut walls: Vec<(f64, f64)> = here
            .map(|point| (jobs::wall_at_jobs(point.wall, self.parallel_ms, point.jobs, jobs), point.weight))
            .collect();
        walls.sort_by(|a, b| a.0.total_cmp(&b.0));
        quantile(&walls, 0.5)
    }

    /// Whether only attempts with exactly this number of jobs are used: because there is no line, or because enough such attempts ran.
    pub(super) fn uses_only_tried_at(&self, jobs: u32) -> bool {
        let (attempts, stopped) = self.count_at(jobs);
        let drawn = matches!(self.known_from, CurveKnown::Flat | CurveKnown::Line);
        attempts > 0 && (!drawn || attempts - stopped >= MIN_EXACT_ATTEMPTS)
    }
}

fn job_pairs<'p, 'h>(
    points: &'p [JobsObservation<'h>],
    slope: impl Fn(&JobsObservation<'h>, &JobsObservation<'h>) -> Option<f64>,
    comparable: impl Fn(&'p JobsObservation<'h>, &'p JobsObservation<'h>) -> bool,
) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (n, a) in points.iter().enumerate() {
        // keys are compared last: comparing their texts costs most
        let others = points.iter().skip(n + 1).filter_map(|b| Some((b, slope(a, b)?)));
        slopes.extend(others.filter(|(b, _)| comparable(a, b)).map(|(_, slope)| slope));
    }
    slopes
}

/// The least value that covers `share` of the weight; 0 if `values` is empty. `values` are sorted pairs of value and weight.
fn quantile(values: &[(f64, f64)], share: f64) -> f64 {
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut covered = 0.0;
    let enough = values.iter().find(|(_, weight)| {
        covered += weight;
        // the tolerance absorbs rounding, so that a sum slightly below the share still counts as reaching it
        covered >= all * share - all * 1e-9
    });
    enough.or_else(|| values.last()).map_or(0.0, |(value, _)| *value)
}

fn share(part: usize, whole: usize) -> f64 {
    let float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}
