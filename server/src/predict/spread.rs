//! The expected values of one quantity, as shares over a logarithmic grid.
//!
//! A censored value `s` proves "more than s" (Kaplan-Meier: its share moves to what lies above). If less lies above than
//! moves there, the rest goes to a point of its own, so that the next size is always a real step.

use super::{
    level::{Level, USUAL_DEVIATION},
    pool::{Pool, Used},
};

/// Steps of the grid for each doubling: one step is 1.1 %.
const STEPS: f64 = 64.0;
/// No grid is longer: 48 doublings reach from a byte to 256 TiB.
const LONGEST: usize = 48 * 64;
/// Where "more than s" goes if nothing is known above s.
const BEYOND: f64 = 1.5;
/// Spread of one configuration built again: 3 % (lab, 87 configurations run 2 to 7 times).
const NOISE: f64 = 0.03;
/// Share of each value that lies in a thin tail above it: builds grow more often than they shrink.
const TAIL: f64 = 0.1;
/// Mean length of that tail, in deviations of what was seen.
const TAIL_LENGTH: f64 = 1.2;
/// Needs that a failure wastes: the attempts that were lost, and what is too much in the retry that is doubled until it fits.
const LOST: f64 = 1.5;
/// Room above the largest value for noise and tail, in steps.
const ROOM: usize = 96;

/// One value on the logarithmic axis.
#[derive(Debug, Clone, Copy)]
struct Point {
    log: f64,
    weight: f64,
    censored: bool,
}

/// Shares of the expected values on a logarithmic grid.
#[derive(Debug)]
pub(super) struct Spread {
    start: f64,
    shares: Vec<f64>,
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
    /// The blend of what `value` says of each attempt and, for the share that no rung takes, of `defaults`.
    pub(super) fn blend(
        pool: &Pool<'_>,
        value: impl Fn(&Used<'_>) -> Option<f64>,
        defaults: [f64; 2],
    ) -> Self {
        let mut points = Vec::with_capacity(pool.used.len() + 2);
        let (mut level, mut next) = (Level::default(), Level::default());
        let mut rung = None;
        for used in &pool.used {
            if rung != Some(used.rung) {
                (rung, level) = (Some(used.rung), next);
            }
            let Some(log) = value(used).filter(|v| v.is_finite() && *v > 0.0).map(f64::log2) else {
                continue;
            };
            let censored = used.summary.censored;
            let log = level.draw(log);
            points.push(Point { log, weight: used.weight, censored });
            if !censored {
                next.add(log, used.weight, used.fresh);
            }
        }
        let attempts = u32::try_from(points.len()).unwrap_or(u32::MAX);
        let share = pool.left.max(f64::MIN_POSITIVE) / 2.0;
        for default in defaults {
            // the default knows nothing of this key's spread either: drawn twice
            let log = next.draw(next.draw(default.max(1.0).log2()));
            points.push(Point { log, weight: share, censored: false });
        }
        Self { attempts, deviation: next.deviation(), ..Self::of(&points) }
    }

    fn of(points: &[Point]) -> Self {
        let least = points.iter().map(|p| p.log).fold(f64::INFINITY, f64::min);
        // whole steps, so that one more point moves no other into another bin
        let start = (least * STEPS).floor() / STEPS;
        let end = points.iter().map(|p| p.log).fold(start, f64::max) + BEYOND.log2();
        let length = (step_of(end, start) + 2).min(LONGEST);
        let (mut seen, mut above) = (vec![0.0; length], vec![0.0; length]);
        for point in points {
            let row = if point.censored { &mut above } else { &mut seen };
            if let Some(bin) = row.get_mut(step_of(point.log, start).min(length - 1)) {
                *bin += point.weight;
            }
        }
        move_up(&mut seen, &above);
        let total: f64 = seen.iter().sum();
        if total > 0.0 {
            for share in &mut seen {
                *share /= total;
            }
        }
        Self { start, shares: seen, deviation: USUAL_DEVIATION, attempts: 0 }
    }

    /// The same with noise and tail around every value: what was seen is not all that can happen.
    pub(super) fn smoothed(&self) -> Self {
        let sigma = (1.0 + NOISE).log2() * STEPS;
        let kernel: Vec<f64> = (-8..=8).map(|n| (-0.5 * (f64::from(n) / sigma).powi(2)).exp()).collect();
        let unit: f64 = kernel.iter().sum();
        let mut shares = vec![0.0; self.shares.len() + kernel.len() + ROOM];
        for (at, share) in self.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            for (bin, weight) in shares.iter_mut().skip(at).zip(&kernel) {
                *bin += (1.0 - TAIL) * share * weight / unit;
            }
        }
        // an exponential tail: what is in it decays by a constant factor from step to step
        let fade = (-1.0 / (TAIL_LENGTH * self.deviation * STEPS)).exp();
        let mut tail = 0.0;
        let values = self.shares.iter().chain(std::iter::repeat(&0.0));
        for (bin, share) in shares.iter_mut().skip(kernel.len() / 2).zip(values) {
            tail += TAIL * share;
            *bin += tail * (1.0 - fade);
            tail *= fade;
        }
        if let Some(last) = shares.last_mut() {
            *last += tail;
        }
        Self { start: self.start - 8.0 / STEPS, shares, ..*self }
    }

    /// The smallest size that covers `share` of the expected values.
    pub(super) fn quantile(&self, share: f64) -> Cover {
        let mut last = Cover { value: 1.0, share: 0.0 };
        for cover in self.covers() {
            last = cover;
            // sums of shares miss 1 by rounding
            if cover.share >= share - 1e-9 {
                break;
            }
        }
        last
    }

    /// The size of least expected cost: `hold` times what is held for nothing while it is enough, `price` when it is not.
    pub(super) fn cheapest(&self, hold: f64, price: f64) -> Cover {
        let (mut best, mut least) = (self.quantile(1.0), f64::INFINITY);
        let (all, mut used) = (self.mean(), 0.0);
        for (cover, share) in self.covers().zip(&self.shares) {
            used += share * cover.value;
            let over = 1.0 - cover.share;
            let cost = hold * (cover.value * cover.share - used + LOST * (all - used)) + price * over;
            if cost < least && cover.share > 0.0 {
                (best, least) = (cover, cost);
            }
        }
        best
    }

    /// Mean of the expected values.
    pub(super) fn mean(&self) -> f64 {
        self.covers().zip(&self.shares).map(|(cover, share)| cover.value * share).sum()
    }

    /// Every size of the grid, from small to large.
    fn covers(&self) -> impl Iterator<Item = Cover> {
        let step = (1.0 / STEPS).exp2();
        let mut value = self.start.exp2();
        let mut covered = 0.0;
        self.shares.iter().map(move |share| {
            covered += share;
            value *= step;
            Cover { value, share: covered }
        })
    }
}

/// Moves the share of censored values to what lies above them.
fn move_up(seen: &mut [f64], above: &[f64]) {
    if above.iter().all(|share| *share <= 0.0) {
        return;
    }
    let beyond = step_of(BEYOND.log2(), 0.0) + 1;
    let mut right: f64 = seen.iter().chain(above).sum();
    // every share to the right of here counts `factor` times
    let mut factor = 1.0;
    let mut added = vec![0.0; seen.len()];
    for (at, (share, moved)) in seen.iter_mut().zip(above).enumerate() {
        right = (right - *share - moved).max(0.0);
        *share *= factor;
        if *moved <= 0.0 {
            continue;
        }
        let (moving, there) = (moved * factor, right * factor);
        let taken = moving.min(there);
        if right > 0.0 {
            factor *= 1.0 + taken / there.max(f64::MIN_POSITIVE);
        }
        let last = added.len().saturating_sub(1);
        if let Some(bin) = added.get_mut((at + beyond).min(last)) {
            *bin += moving - taken;
        }
    }
    seen.iter_mut().zip(added).for_each(|(share, more)| *share += more);
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; callers bound the result"
)]
fn step_of(log: f64, start: f64) -> usize {
    ((log - start) * STEPS) as usize
}
