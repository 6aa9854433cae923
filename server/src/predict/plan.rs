//! Which size to try first, and which after that: the way of least expected cost.
//!
//! An attempt that fits costs what it holds for nothing; one that does not costs all that it held, the price of a failure, and
//! the way on from there. The way on is worked out from the largest size down, so that "cover both modes" and "cover the common
//! one and try again" are weighed against each other with the right second size.

use super::spread::{Bin, Spread};
use crate::domain::Bytes;

/// Room for the sizes that are weighed: usually 40 to 90.
const SIZES: usize = 96;
/// A size of its own for each such share of the needs, so that the choice is fine where the needs are.
const FINE: f64 = 1.0 / 128.0;
/// Where they are few, a size of its own for each 14 %.
const COARSE: u32 = 6;
/// A share too small for a size of its own.
const TOO_LOW: f64 = 1e-4;
/// The share above which no size is looked for.
const TOO_HIGH: f64 = 1e-5;
/// A size that follows a failure is at least this much larger: less is a retry that fails again, more is held for nothing by
/// a build that was just over.
pub(super) const REAL_STEP: f64 = 1.3;
/// Half a step of the grid down: `2^(-1/64)`.
const HALF_STEP: f64 = 0.989_228;
/// The step when nothing is known above the size that failed.
const BLIND_STEP: f64 = 1.5;

/// One size that may be tried, with sums over all needs that it covers.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    bytes: f64,
    covered: Bin,
    /// Bytes x hours that the covered ones use.
    used: f64,
}

/// The sizes that may be tried, smallest first.
#[derive(Debug)]
pub(super) struct Plan {
    sizes: Vec<Size>,
    price: f64,
}

/// A size and the share of needs that it covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub(super) bytes: f64,
    pub(super) share: f64,
}

impl Plan {
    /// `price`: what one failure costs, in GiB x h.
    pub(super) fn new(spread: &Spread, price: f64) -> Self {
        let mut sizes = Vec::with_capacity(SIZES);
        let (mut sum, mut last, mut steps) = (Size::default(), 0.0, 0_u32);
        for (cover, bin) in spread.covers() {
            // what is needed lies in the middle of its step
            sum.used += bin.hours * cover.value * HALF_STEP;
            sum.covered.hours += bin.hours;
            (sum.bytes, sum.covered.share) = (cover.value, cover.share);
            if cover.share >= 1.0 - TOO_HIGH {
                break;
            }
            steps += 1;
            let share = cover.share - last;
            if share >= FINE || (steps >= COARSE && share > TOO_LOW) {
                sizes.push(sum);
                (last, steps) = (cover.share, 0);
            }
        }
        // the largest covers all that is looked at
        if sizes.last().is_none_or(|last| last.bytes < sum.bytes) {
            sizes.push(sum);
        }
        Self { sizes, price: price * Bytes::GIB.as_f64() }
    }

    /// The size to try first.
    pub(super) fn first(&self) -> Choice {
        let bytes = |size: &Size| Choice { bytes: size.bytes, share: size.covered.share };
        self.best(0).map_or(Choice { bytes: 1.0, share: 0.0 }, bytes)
    }

    /// The size to try when `failed` was too little.
    pub(super) fn above(&self, failed: f64) -> f64 {
        let from = self.sizes.partition_point(|size| size.bytes < failed * REAL_STEP);
        self.best(from).map_or(failed * BLIND_STEP, |size| size.bytes)
    }

    /// The cheapest first size among those from `from` on, given that the one before it was too little.
    fn best(&self, from: usize) -> Option<&Size> {
        let mut best = None;
        // what it costs to go on after the size before was too little, for all needs above it
        let mut onward = vec![0.0; self.sizes.len() + 1];
        for start in (from..self.sizes.len()).rev() {
            let (cost, size) = self.cheapest(start, &onward);
            best = size;
            if let Some(slot) = onward.get_mut(start) {
                *slot = cost;
            }
        }
        best
    }

    /// The cheapest size from `start` on, and what it and all that follows it cost.
    fn cheapest(&self, start: usize, onward: &[f64]) -> (f64, Option<&Size>) {
        let below = start.checked_sub(1).and_then(|at| self.sizes.get(at)).copied().unwrap_or_default();
        let all = self.sizes.last().map(|size| size.covered).unwrap_or_default();
        let open = all.hours - below.covered.hours;
        let (mut least, mut best) = (f64::INFINITY, None);
        for (size, then) in self.sizes.iter().zip(onward.iter().skip(1)).skip(start) {
            // held by all that are not done yet, less what those that fit use
            let held = size.bytes * open - (size.used - below.used);
            let cost = held + self.price * (all.share - size.covered.share) + then;
            if cost < least {
                (least, best) = (cost, Some(size));
            }
        }
        (least, best)
    }
}
