//! The expected values of one quantity, as shares over a logarithmic grid.
//!
//! A censored value `s` proves "more than s" (Kaplan-Meier: its share moves to what lies above). If little lies above, a part
//! goes to a point of its own, so that the next size is always a real step.

use super::pool::{Pool, Used};

/// Steps of the grid for each doubling: one step is 2.2 %.
pub(super) const STEPS: f64 = 32.0;
/// No grid is longer: 48 doublings reach from a byte to 256 TiB.
const LONGEST: usize = 48 * 32;
/// Where "more than s" goes if nothing is known above s.
const BEYOND: f64 = 1.5;
/// Spread of one configuration built again: 3 % (lab, 87 configurations run 2 to 7 times).
const NOISE: f64 = 0.03;
/// The noise is no more than this part of the deviation: some keys repeat to a thousandth.
const NOISE_SHARE: f64 = 0.1;
/// Reach of the noise, in steps: four deviations.
const REACH: i32 = 6;
/// Share of each value that lies in a thin tail above it: builds grow more often than they shrink.
const TAIL: f64 = 0.1;
/// Mean length of that tail, in deviations of what was seen.
const TAIL_LENGTH: f64 = 0.8;
/// Deviation of builds of one key, as a logarithm to base 2, before any was seen (Spack's CI: 0.25 of the peak in the median).
const USUAL_DEVIATION: f64 = 0.32;
/// Weight of the usual deviation against that of one attempt: little, so that a key that repeats is soon believed to repeat.
const USUAL_WEIGHT: f64 = 0.1;
/// Room above the largest value for noise and tail, in steps.
const ROOM: usize = 64;

/// One value on the logarithmic axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) log: f64,
    pub(super) weight: f64,
    pub(super) hours: f64,
    pub(super) censored: bool,
}

/// What lies in one step of the grid: its share of the attempts, and of the attempts times their hours.
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

    fn times(self, factor: f64) -> Self {
        Self { share: self.share * factor, hours: self.hours * factor }
    }
}

/// Shares of the expected values on a logarithmic grid.
#[derive(Debug)]
pub(super) struct Spread {
    start: f64,
    bins: Vec<Bin>,
    /// Of the values that are not censored, as a logarithm.
    deviation: f64,
    /// Attempts that gave a value.
    pub(super) attempts: u32,
}

/// A size, and the share of expected values that it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cover {
    pub(super) value: f64,
    pub(super) share: f64,
}

impl Spread {
    /// The blend of what `log` says of each attempt (a logarithm to base 2; what is not finite says nothing) and, for the share
    /// that no rung takes, of `defaults`.
    pub(super) fn blend(pool: &Pool<'_>, log: impl Fn(&Used<'_>) -> f64, defaults: [f64; 2]) -> Self {
        let mut points = Vec::with_capacity(pool.used.len() + 2);
        for used in &pool.used {
            let log = log(used);
            if log.is_finite() {
                let (weight, censored) = (used.weight, used.fact.censored);
                points.push(Point { log, weight, hours: f64::from(used.fact.hours), censored });
            }
        }
        let attempts = u32::try_from(points.len()).unwrap_or(u32::MAX);
        let (weight, hours) = points.iter().fold((0.0, 0.0), |(weight, hours), point| {
            (weight + point.weight, hours + point.weight * point.hours)
        });
        let hours = if weight > 0.0 { hours / weight } else { 1.0 };
        let deviation = deviation(pool, &points);
        let weight = pool.left.max(f64::MIN_POSITIVE) / 2.0;
        for default in defaults {
            points.push(Point { log: default.max(1.0).log2(), weight, hours, censored: false });
        }
        Self { deviation, attempts, ..Self::of(&points) }
    }

    fn of(points: &[Point]) -> Self {
        let least = points.iter().map(|p| p.log).fold(f64::INFINITY, f64::min);
        // whole steps, so that one more point moves no other into another bin
        let start = (least * STEPS).floor() / STEPS;
        let end = points.iter().map(|p| p.log).fold(start, f64::max) + BEYOND.log2();
        let length = (step_of(end, start) + 2).min(LONGEST);
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
            move_up(&mut seen, &above);
        }
        let total: f64 = seen.iter().map(|bin| bin.share).sum();
        if total > 0.0 {
            for bin in &mut seen {
                *bin = bin.times(1.0 / total);
            }
        }
        Self { start, bins: seen, deviation: USUAL_DEVIATION, attempts: 0 }
    }

    /// The same with noise and tail around every value: what was seen is not all that can happen.
    pub(super) fn smoothed(&self) -> Self {
        let sigma = (1.0 + NOISE).log2().min(NOISE_SHARE * self.deviation) * STEPS;
        let kernel: Vec<f64> =
            (-REACH..=REACH).map(|n| (-0.5 * (f64::from(n) / sigma).powi(2)).exp()).collect();
        let unit: f64 = kernel.iter().sum();
        let mut bins = vec![Bin::default(); self.bins.len() + kernel.len() + ROOM];
        for (at, from) in self.bins.iter().enumerate().filter(|(_, bin)| bin.share > 0.0) {
            for (bin, weight) in bins.iter_mut().skip(at).zip(&kernel) {
                bin.add(*from, (1.0 - TAIL) * weight / unit);
            }
        }
        // an exponential tail: what is in it decays by a constant factor from step to step
        let fade = (-1.0 / (TAIL_LENGTH * self.deviation * STEPS)).exp();
        let mut tail = Bin::default();
        let values = self.bins.iter().copied().chain(std::iter::repeat(Bin::default()));
        for (bin, value) in bins.iter_mut().skip(kernel.len() / 2).zip(values) {
            tail.add(value, TAIL);
            bin.add(tail, 1.0 - fade);
            tail = tail.times(fade);
        }
        if let Some(last) = bins.last_mut() {
            last.add(tail, 1.0);
        }
        Self { start: self.start - f64::from(REACH) / STEPS, bins, ..*self }
    }

    /// The smallest size that covers `share` of the expected values.
    pub(super) fn quantile(&self, share: f64) -> Cover {
        let mut last = Cover { value: 1.0, share: 0.0 };
        for (cover, _) in self.covers() {
            last = cover;
            // sums of shares miss 1 by rounding
            if cover.share >= share - 1e-9 {
                break;
            }
        }
        last
    }

    /// Every size of the grid from small to large, with what lies in its step.
    pub(super) fn covers(&self) -> impl Iterator<Item = (Cover, Bin)> {
        let step = (1.0 / STEPS).exp2();
        let mut value = self.start.exp2();
        let mut covered = 0.0;
        self.bins.iter().map(move |bin| {
            covered += bin.share;
            value *= step;
            (Cover { value, share: covered }, *bin)
        })
    }
}

/// Deviation of one attempt from the mean of all, the usual one as long as little is known. Attempts that were stopped have no say.
fn deviation(pool: &Pool<'_>, points: &[Point]) -> f64 {
    let (mut weight, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for point in points.iter().filter(|point| !point.censored) {
        weight += point.weight;
        sum += point.log * point.weight;
        squares += point.log * point.log * point.weight;
    }
    if weight <= 0.0 {
        return USUAL_DEVIATION;
    }
    let attempts: f64 = pool.used.iter().filter(|used| !used.fact.censored).map(|used| used.fresh).sum();
    let variance = (squares / weight - (sum / weight).powi(2)).max(0.0);
    let usual = USUAL_DEVIATION.powi(2) * USUAL_WEIGHT;
    ((variance * attempts + usual) / (attempts + USUAL_WEIGHT)).sqrt()
}

/// Moves the share of censored values to what lies above them.
fn move_up(seen: &mut [Bin], above: &[Bin]) {
    let beyond = step_of(BEYOND.log2(), 0.0) + 1;
    let total: f64 = seen.iter().chain(above).map(|bin| bin.share).sum();
    let (mut right, mut rest) = (total, total);
    // every share to the right of here counts `factor` times
    let mut factor = 1.0;
    let mut added = vec![Bin::default(); seen.len()];
    for (at, (bin, moved)) in seen.iter_mut().zip(above).enumerate() {
        right = (right - bin.share - moved.share).max(0.0);
        *bin = bin.times(factor);
        if moved.share <= 0.0 {
            continue;
        }
        // of the others, so much lies above; twice that of these moves there, so that what was above is never less than before
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
    ((log - start) * STEPS) as usize
}
