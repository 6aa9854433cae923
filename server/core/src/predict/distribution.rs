//! The expected values of one quantity, as probabilities on a logarithmic grid.
//!
//! A censored value `s` proves "more than s": its share moves to the values above it, as in the Kaplan-Meier estimator. If few values are
//! above it, part of its share goes to a point at `s` times [`BEYOND_FACTOR`], so that the next size is noticeably larger.

use super::{
    deviation::{Deviation, WeightedValue},
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::Rung;

/// Steps of the grid in each doubling: one step is 2.2 %.
pub(super) const STEPS_A_DOUBLING: f64 = 32.0;
/// Longest grid: 48 doublings reach from a byte to 256 TiB.
const LONGEST_GRID: usize = 48 * 32;
/// Factor above a censored value `s` where its share goes if nothing is known above it.
pub(super) const BEYOND_FACTOR: f64 = 1.5;
/// Differences between repeated builds of one configuration: 3 % (lab, 87 configurations run 2 to 7 times).
const NOISE_DEVIATION: f64 = 0.03;
/// Most noise, as a share of the observed deviation: some keys repeat to a thousandth.
const NOISE_SHARE: f64 = 0.1;
/// Grid steps on each side of a value over which noise spreads it: four standard deviations.
const NOISE_STEPS: i32 = 6;
/// Index of the centre among the steps that noise spreads a value over.
const NOISE_CENTRE: usize = 6;
/// Share of each value that is spread over a tail above it: builds grow more often than they shrink.
const TAIL_SHARE: f64 = 0.1;
/// Mean length of that tail, in observed deviations.
const TAIL_LENGTH: f64 = 0.8;
/// Longest mean length of a tail: attempts that differ more say nothing about what is above them, and a longer tail would not fit in the
/// grid.
const LONGEST_TAIL: f64 = 0.6;
/// Grid steps reserved above the largest value for its tail: five times the longest mean.
const SPARE_STEPS: usize = 96;

/// Content of one grid step: its share of the attempts, and its share of the attempts weighted by their hours.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bin {
    pub(super) share: f64,
    pub(super) hours: f64,
}

impl Bin {
    fn add(&mut self, other: Self, factor: f64) {
        self.share += other.share * factor;
        self.hours += other.hours * factor;
    }

    fn scaled(self, factor: f64) -> Self {
        Self { share: self.share * factor, hours: self.hours * factor }
    }
}

/// Probabilities of the expected values on a logarithmic grid.
#[derive(Debug)]
pub(super) struct Distribution {
    start: f64,
    bins: Vec<Bin>,
    deviation: Deviation,
    /// Deviation within groups of need, if there are several.
    within_groups: Option<Deviation>,
    /// Probability that the next value is above everything observed.
    pub(super) unseen: f64,
    /// Attempts that contributed a value.
    pub(super) attempts: u32,
}

/// A size, and the share of expected values that it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoveredSize {
    pub(super) value: f64,
    pub(super) share: f64,
}

/// The finite points of the attempts.
fn points(
    similar: &SimilarAttempts<'_>,
    point: impl Fn(&WeightedAttempt<'_>) -> (f64, f64),
) -> Vec<WeightedValue> {
    let mut points = Vec::with_capacity(similar.attempts.len() + 2);
    points.extend(similar.attempts.iter().filter_map(|used| {
        let (log, weight) = point(used);
        let (hours, censored) = (f64::from(used.observation.hours), used.observation.censored);
        log.is_finite().then_some(WeightedValue { rung: used.rung, log, weight, hours, censored })
    }));
    points
}

impl Distribution {
    /// Distribution of the `point` of each attempt: a logarithm to base 2 (non-finite ones are skipped), and its weight. The weight that no
    /// rung takes goes to `defaults`; without them it is expected above the observed values.
    pub(super) fn expected(
        similar: &SimilarAttempts<'_>,
        point: impl Fn(&WeightedAttempt<'_>) -> (f64, f64),
        defaults: Option<[f64; 2]>,
    ) -> Self {
        let points = points(similar, point);
        let unseen = if defaults.is_some() { 0.0 } else { similar.unknown_share };
        let deviation = Deviation::of(similar, &points);
        let within_groups = Deviation::within_groups(similar, &points);
        Self { deviation, within_groups, unseen, ..Self::with_defaults(similar, points, defaults) }
    }

    fn with_defaults(
        similar: &SimilarAttempts<'_>,
        mut points: Vec<WeightedValue>,
        defaults: Option<[f64; 2]>,
    ) -> Self {
        let attempts = u32::try_from(points.len()).unwrap_or(u32::MAX);
        let (weight, hours) = points.iter().fold((0.0, 0.0), |(weight, hours), point| {
            (weight + point.weight, hours + point.weight * point.hours)
        });
        let hours = if weight > 0.0 { hours / weight } else { 1.0 };
        let share = if defaults.is_some() { similar.default_share } else { 0.0 };
        if share > 0.0 || attempts == 0 {
            points.extend(defaults.unwrap_or([1.0; 2]).map(|default| WeightedValue {
                rung: Rung::Default,
                log: default.max(1.0).log2(),
                weight: share.max(f64::MIN_POSITIVE) / 2.0,
                hours,
                censored: false,
            }));
        }
        Self { attempts, ..Self::of(&points) }
    }

    pub(super) fn of(points: &[WeightedValue]) -> Self {
        let least = points.iter().map(|p| p.log).fold(f64::INFINITY, f64::min);
        // the grid starts at a whole step, so that a further, smaller value does not move others into another bin
        let start = (least * STEPS_A_DOUBLING).floor() / STEPS_A_DOUBLING;
        let end = points.iter().map(|p| p.log).fold(start, f64::max) + BEYOND_FACTOR.log2();
        let length = (step_of(end, start) + 2).min(LONGEST_GRID);
        let (mut seen, mut above) = (vec![Bin::default(); length], Vec::new());
        for point in points {
            if point.censored && above.is_empty() {
                above.resize(length, Bin::default());
            }
            let row = if point.censored { &mut above } else { &mut seen };
            if let Some(bin) = row.get_mut(step_of(point.log, start).min(length - 1)) {
                bin.add(Bin { share: 1.0, hours: point.hours }, point.weight);
            }
        }
        if !above.is_empty() {
            move_censored_up(&mut seen, &above);
        }
        let total: f64 = seen.iter().map(|bin| bin.share).sum();
        if total > 0.0 {
            for bin in &mut seen {
                *bin = bin.scaled(1.0 / total);
            }
        }
        Self {
            start,
            bins: seen,
            deviation: Deviation::UNKNOWN,
            within_groups: None,
            unseen: 0.0,
            attempts: 0,
        }
    }

    /// This distribution with noise and a tail added to every value, because needs that were not observed yet can occur.
    pub(super) fn smoothed(&self) -> Self {
        self.smoothed_by(self.deviation)
    }

    /// Like [`Self::smoothed`], for rare events where there are several groups of need: the length of the tails follows from the width of
    /// each group, not from the distance between groups. `None` if there is one group.
    pub(super) fn smoothed_within_groups(&self) -> Option<Self> {
        self.within_groups.map(|deviation| self.smoothed_by(deviation))
    }

    fn smoothed_by(&self, deviation: Deviation) -> Self {
        let sigma = (1.0 + NOISE_DEVIATION).log2().min(NOISE_SHARE * deviation.alike) * STEPS_A_DOUBLING;
        let kernel: Vec<f64> =
            (-NOISE_STEPS..=NOISE_STEPS).map(|n| (-0.5 * (f64::from(n) / sigma).powi(2)).exp()).collect();
        let unit: f64 = kernel.iter().sum();
        let tail = TAIL_SHARE * (1.0 - self.unseen);
        let near = 1.0 - tail - self.unseen;
        let mut bins = vec![Bin::default(); self.bins.len() + kernel.len() + SPARE_STEPS];
        for (at, from) in self.bins.iter().enumerate().filter(|(_, bin)| bin.share > 0.0) {
            for (bin, weight) in bins.iter_mut().skip(at).zip(&kernel) {
                bin.add(*from, near * weight / unit);
            }
        }
        self.add_tail(&mut bins, tail, TAIL_LENGTH * deviation.alike);
        self.add_tail(&mut bins, self.unseen, deviation.jump);
        Self { start: self.start - f64::from(NOISE_STEPS) / STEPS_A_DOUBLING, bins, ..*self }
    }

    /// Spreads the fraction `share` of each value's probability over an exponential tail at and above that value; `length` is the mean
    /// length of the tail in doublings.
    fn add_tail(&self, bins: &mut [Bin], share: f64, length: f64) {
        if share <= 0.0 {
            return;
        }
        let fade = (-1.0 / (length.min(LONGEST_TAIL) * STEPS_A_DOUBLING)).exp();
        let mut tail = Bin::default();
        let values = self.bins.iter().copied().chain(std::iter::repeat(Bin::default()));
        for (bin, value) in bins.iter_mut().skip(NOISE_CENTRE).zip(values) {
            tail.add(value, share);
            bin.add(tail, 1.0 - fade);
            tail = tail.scaled(fade);
        }
        if let Some(last) = bins.last_mut() {
            last.add(tail, 1.0);
        }
    }

    /// The share of the expected values that are at most `size`.
    pub(super) fn covered(&self, size: f64) -> f64 {
        self.covers()
            .take_while(|(cover, _)| cover.value <= size)
            .last()
            .map_or(0.0, |(cover, _)| cover.share)
    }

    /// The smallest size that covers `share` of the expected values.
    pub(super) fn quantile(&self, share: f64) -> CoveredSize {
        let mut last = CoveredSize { value: 1.0, share: 0.0 };
        for (cover, _) in self.covers() {
            last = cover;
            // the tolerance absorbs the rounding of summed shares, which may end slightly below 1
            if cover.share >= share - 1e-9 {
                break;
            }
        }
        last
    }

    /// Every size of the grid in ascending order: the share it covers, and the content of its step.
    pub(super) fn covers(&self) -> impl Iterator<Item = (CoveredSize, Bin)> {
        let step = (1.0 / STEPS_A_DOUBLING).exp2();
        let mut value = self.start.exp2();
        let mut covered = 0.0;
        self.bins.iter().map(move |bin| {
            covered += bin.share;
            value *= step;
            (CoveredSize { value, share: covered }, *bin)
        })
    }
}

/// Moves the share of each censored value to the values above it.
fn move_censored_up(seen: &mut [Bin], above: &[Bin]) {
    let beyond = step_of(BEYOND_FACTOR.log2(), 0.0) + 1;
    let total: f64 = seen.iter().chain(above).map(|bin| bin.share).sum();
    let (mut right, mut rest) = (total, total);
    // all shares further right are multiplied by `factor`
    let mut factor = 1.0;
    let mut added = vec![Bin::default(); seen.len()];
    for (at, (bin, moved)) in seen.iter_mut().zip(above).enumerate() {
        right = (right - bin.share - moved.share).max(0.0);
        *bin = bin.scaled(factor);
        if moved.share <= 0.0 {
            continue;
        }
        // moves twice the share of the values above, so that adding a censored value never lowers the weight of what was above it
        rest -= moved.share;
        let above = (right / rest.max(f64::MIN_POSITIVE)).min(1.0);
        let (moving, there) = (moved.share * factor, right * factor);
        let taken = moving * (2.0 * above).min(1.0);
        if right > 0.0 {
            factor *= 1.0 + taken / there.max(f64::MIN_POSITIVE);
        }
        let last = added.len().saturating_sub(1);
        if let Some(bin) = added.get_mut((at + beyond).min(last)) {
            bin.add(*moved, (moving - taken) / moved.share);
        }
    }
    seen.iter_mut().zip(added).for_each(|(bin, more)| bin.add(more, 1.0));
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; callers bound the result"
)]
fn step_of(log: f64, start: f64) -> usize {
    ((log - start) * STEPS_A_DOUBLING) as usize
}
