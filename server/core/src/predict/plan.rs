//! Which size to try first, and which next if it is too small: the sequence with the least expected cost. The newsvendor problem
//! (Edgeworth 1888; Arrow, Harris and Marschak 1951) with another order after each shortage, solved backwards (Bellman 1957).
//!
//! An attempt that fits costs its unused reservation; one that does not costs its whole reservation, the price of a failure, and the rest
//! of the sequence. Costs are computed from the largest size down, so that "cover both modes" and "cover the common one and retry" are
//! compared with the best second size.

use super::distribution::{Bin, Distribution};
use crate::domain::Bytes;

/// Least factor between a size that was too small and the next one: less may fail again, more is wasted by a build that was just above.
pub(super) const LEAST_STEP: f64 = 1.5;
/// Least step above a size that was too small: one more linker or compiler.
const STEP_LEAST: Bytes = Bytes(100 << 20);
/// Capacity for candidate sizes: usually there are 40 to 90.
const USUAL_SIZES: usize = 96;
/// One candidate for each such share of the needs, so that candidates are dense where needs are.
const SHARE_A_CANDIDATE: f64 = 1.0 / 128.0;
/// In sparse regions, one candidate for each 14 %.
const SPARSE_CANDIDATE_STEP: u32 = 6;
/// Shares of the needs below this get no candidate.
const TOO_LOW: f64 = 1e-4;
/// The largest candidate may leave this share uncovered.
const TOO_HIGH: f64 = 1e-5;
/// A retry that reserves more than this multiple of the need counts as oversized.
const OVERSIZED_ABOVE: f64 = 1.5;
/// Extra cost of a retry that fails again or is oversized, in average builds. Without it a retry often reserves twice the need (replayed on
/// Spack's CI: 69 % instead of 58 % of the retries are not oversized, at the same waste; 1 gives 65 %, 10 no more).
const FAILED_RETRY_COST: f64 = 3.0;
/// Half a grid step down: `2^(-1/64)`.
const HALF_STEP: f64 = 0.989_228;

/// The next size after `stopped` was too small, in whole MiB.
pub(super) fn step_above(stopped: Bytes) -> Bytes {
    let least = Bytes(stopped.0.saturating_add(STEP_LEAST.0));
    Bytes::from_f64(stopped.as_f64() * LEAST_STEP).max(least).ceil_mib()
}

/// A candidate size, with sums over all needs that it covers.
#[derive(Debug, Clone, Copy, Default)]
struct CandidateSize {
    bytes: f64,
    covered: Bin,
    /// Bytes x hours that the covered builds use.
    used: f64,
}

/// The candidate sizes, smallest first.
#[derive(Debug)]
pub(super) struct SizePlan {
    sizes: Vec<CandidateSize>,
    price: f64,
}

/// A size and the share of needs that it covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChosenSize {
    pub(super) bytes: f64,
    pub(super) share: f64,
}

impl SizePlan {
    /// `price`: what one failure costs, in GiB x h.
    pub(super) fn new(spread: &Distribution, price: f64) -> Self {
        let mut sizes = Vec::with_capacity(USUAL_SIZES);
        let (mut sum, mut last, mut steps) = (CandidateSize::default(), 0.0, 0_u32);
        for (cover, bin) in spread.covers() {
            // a need is in the middle of its step
            sum.used += bin.hours * cover.value * HALF_STEP;
            sum.covered.hours += bin.hours;
            (sum.bytes, sum.covered.share) = (cover.value, cover.share);
            if cover.share >= 1.0 - TOO_HIGH {
                break;
            }
            steps += 1;
            let share = cover.share - last;
            if share >= SHARE_A_CANDIDATE || (steps >= SPARSE_CANDIDATE_STEP && share > TOO_LOW) {
                sizes.push(sum);
                (last, steps) = (cover.share, 0);
            }
        }
        // the largest candidate covers all needs considered
        if sizes.last().is_none_or(|last| last.bytes < sum.bytes) {
            sizes.push(sum);
        }
        Self { sizes, price: price * Bytes::GIB.as_f64() }
    }

    /// The size to try first.
    pub(super) fn first(&self) -> ChosenSize {
        let bytes = |size: &CandidateSize| ChosenSize { bytes: size.bytes, share: size.covered.share };
        self.cheapest(0, &self.onward(1), |_| 0.0).1.map_or(ChosenSize { bytes: 1.0, share: 0.0 }, bytes)
    }

    /// The size to try after `failed` was too small: the cheapest, where a retry that is too small, or larger than [`OVERSIZED_ABOVE`]
    /// times the need, costs [`FAILED_RETRY_COST`] times `missed` more; GiB x h.
    pub(super) fn above(&self, failed: f64, missed: f64) -> f64 {
        let from = self.sizes.partition_point(|size| size.bytes < failed * LEAST_STEP);
        let below = self.covered(failed);
        let all = self.sizes.last().map_or(0.0, |size| size.covered.share);
        let more = |size: &CandidateSize| {
            let far_too_much = self.covered(size.bytes / OVERSIZED_ABOVE).max(below) - below;
            FAILED_RETRY_COST * missed * Bytes::GIB.as_f64() * (all - size.covered.share + far_too_much)
        };
        let (_, best) = self.cheapest(from, &self.onward(from), more);
        best.map_or(failed * LEAST_STEP, |size| size.bytes)
    }

    /// The share of needs that a size covers, to the resolution of the candidates.
    fn covered(&self, bytes: f64) -> f64 {
        let above = self.sizes.partition_point(|size| size.bytes <= bytes);
        above.checked_sub(1).and_then(|at| self.sizes.get(at)).map_or(0.0, |size| size.covered.share)
    }

    /// For each candidate from `from` on, the cost of the sequence from there, for all needs above the candidate before it.
    fn onward(&self, from: usize) -> Vec<f64> {
        let mut onward = vec![0.0; self.sizes.len() + 1];
        for start in (from..self.sizes.len()).rev() {
            let (cost, _) = self.cheapest(start, &onward, |_| 0.0);
            if let Some(slot) = onward.get_mut(start) {
                *slot = cost;
            }
        }
        onward
    }

    /// The cheapest candidate from `start` on, given that the one before it was too small, and the cost of it and of all that follow.
    /// `more` is an extra cost of a candidate.
    fn cheapest(
        &self,
        start: usize,
        onward: &[f64],
        more: impl Fn(&CandidateSize) -> f64,
    ) -> (f64, Option<&CandidateSize>) {
        let below = start.checked_sub(1).and_then(|at| self.sizes.get(at)).copied().unwrap_or_default();
        let all = self.sizes.last().map(|size| size.covered).unwrap_or_default();
        let open = all.hours - below.covered.hours;
        let (mut least, mut best) = (f64::INFINITY, None);
        for (size, then) in self.sizes.iter().zip(onward.iter().skip(1)).skip(start) {
            // reserved by all builds still open, minus what those that fit use
            let held = size.bytes * open - (size.used - below.used);
            let cost = held + self.price * (all.share - size.covered.share) + then + more(size);
            if cost < least {
                (least, best) = (cost, Some(size));
            }
        }
        (least, best)
    }
}
