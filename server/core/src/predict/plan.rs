//! Chooses which size to try first, and which next if it is too small: the sequence with the least expected cost. This is the newsvendor
//! problem (Edgeworth 1888; Arrow, Harris and Marschak 1951) with another order after each shortage, solved backwards (Bellman 1957).
//!
//! An attempt that fits costs its unused reservation; one that does not costs its whole reservation, the price of a failure, and the rest
//! of the sequence. Costs are computed from the largest size down, so that "cover both modes" and "cover the common one and retry" are
//! compared with the best second size.

use super::distribution::{Bin, Distribution};
use crate::domain::Bytes;

/// Factor between a size that was too small and the next one, if nothing shows how far to go.
const STEP_FACTOR: f64 = 1.5;
/// Least factor between them if attempts of the package needed more: a smaller step may fail again, and a larger one wastes memory if the
/// build needed little more. Replayed on Spack's CI: 1.5 has 1.1 % more surplus where 5 to 10 % of the builds fail.
const SHOWN_STEP_FACTOR: f64 = 1.35;
/// Least step above a size that was too small, in bytes: room for one more linker or compiler.
const MIN_STEP_BYTES: Bytes = Bytes(100 << 20);
/// Capacity for candidate sizes: usually there are 40 to 90.
const SIZES_CAPACITY: usize = 96;
/// One candidate size for each 1/128 of the needs, so that candidates are dense where needs are.
const SHARE_A_CANDIDATE: f64 = 1.0 / 128.0;
/// Grid steps (14 %) after which a candidate is added where needs are sparse.
const SPARSE_CANDIDATE_STEP: u32 = 6;
/// A candidate is added in sparse regions only if it covers at least this further share of the needs.
const LOWEST_SHARE: f64 = 1e-4;
/// Share of the needs that the largest candidate may leave uncovered.
const UNCOVERED_SHARE: f64 = 1e-5;
/// A retry that reserves more than this multiple of the need counts as oversized.
const OVERSIZED_ABOVE: f64 = 1.5;
/// Extra cost of a retry that fails again or is oversized, in average builds. Without it a retry often reserves twice the need. Replayed on
/// Spack's CI at the same waste, 58 % of the retries are not oversized without it, 65 % with 1, 69 % with 3, and no more with 10.
const FAILED_RETRY_COST: f64 = 3.0;
/// Factor from the upper end of a grid step to its middle: `2^(-1/64)`.
const HALF_STEP: f64 = 0.989_228;

/// The least size to try if only `stopped`, a size that was too small, is known, in whole MiB: half as much again, and at least 100 MiB
/// more.
pub fn step_above(stopped: Bytes) -> Bytes {
    step_by(stopped, STEP_FACTOR)
}

/// Like [`step_above`], if attempts of the package needed more than `stopped`: a third as much again.
pub(super) fn shown_step_above(stopped: Bytes) -> Bytes {
    step_by(stopped, SHOWN_STEP_FACTOR)
}

fn step_by(stopped: Bytes, factor: f64) -> Bytes {
    let least = Bytes(stopped.0.saturating_add(MIN_STEP_BYTES.0));
    Bytes::from_f64(stopped.as_f64() * factor).max(least).ceil_mib()
}

/// A candidate size, with sums over all needs that it covers.
#[derive(Debug, Clone, Copy, Default)]
struct CandidateSize {
    bytes: f64,
    covered: Bin,
    /// Bytes multiplied by hours that the covered builds use.
    used: f64,
}

/// The candidate sizes, smallest first, with the price of a failure.
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
    /// Chooses the candidate sizes. `price`: what one failure costs, in GiB x h.
    pub(super) fn new(spread: &Distribution, price: f64) -> Self {
        let mut sizes = Vec::with_capacity(SIZES_CAPACITY);
        let (mut sum, mut last, mut steps) = (CandidateSize::default(), 0.0, 0_u32);
        for (cover, bin) in spread.covers() {
            // each need is counted as the middle of its grid step
            sum.used += bin.hours * cover.value * HALF_STEP;
            sum.covered.hours += bin.hours;
            (sum.bytes, sum.covered.share) = (cover.value, cover.share);
            if cover.share >= 1.0 - UNCOVERED_SHARE {
                break;
            }
            steps += 1;
            let share = cover.share - last;
            if share >= SHARE_A_CANDIDATE || (steps >= SPARSE_CANDIDATE_STEP && share > LOWEST_SHARE) {
                sizes.push(sum);
                (last, steps) = (cover.share, 0);
            }
        }
        // the largest candidate covers all needs in the plan
        if sizes.last().is_none_or(|last| last.bytes < sum.bytes) {
            sizes.push(sum);
        }
        Self { sizes, price: price * Bytes::GIB.as_f64() }
    }

    /// The size to try first.
    pub(super) fn first_size(&self) -> ChosenSize {
        let bytes = |size: &CandidateSize| ChosenSize { bytes: size.bytes, share: size.covered.share };
        self.cheapest_from(0, &self.costs_onward(1), |_| 0.0)
            .1
            .map_or(ChosenSize { bytes: 1.0, share: 0.0 }, bytes)
    }

    /// The cheapest size to try after `failed` was too small. A retry that is too small, or larger than [`OVERSIZED_ABOVE`] times the need,
    /// costs [`FAILED_RETRY_COST`] times `missed` (GiB x h) more.
    pub(super) fn size_above(&self, failed: f64, missed: f64) -> f64 {
        let from = self.sizes.partition_point(|size| size.bytes < failed * SHOWN_STEP_FACTOR);
        let below = self.covered(failed);
        let all = self.sizes.last().map_or(0.0, |size| size.covered.share);
        let more = |size: &CandidateSize| {
            let far_too_much = self.covered(size.bytes / OVERSIZED_ABOVE).max(below) - below;
            FAILED_RETRY_COST * missed * Bytes::GIB.as_f64() * (all - size.covered.share + far_too_much)
        };
        let (_, best) = self.cheapest_from(from, &self.costs_onward(from), more);
        best.map_or(failed * STEP_FACTOR, |size| size.bytes)
    }

    /// The share of needs that a size covers, rounded down to the nearest candidate.
    fn covered(&self, bytes: f64) -> f64 {
        let above = self.sizes.partition_point(|size| size.bytes <= bytes);
        above.checked_sub(1).and_then(|at| self.sizes.get(at)).map_or(0.0, |size| size.covered.share)
    }

    /// For each candidate from `from` on: the expected cost of trying the best sizes from it on, over all needs above the candidate before
    /// it.
    fn costs_onward(&self, from: usize) -> Vec<f64> {
        let mut onward = vec![0.0; self.sizes.len() + 1];
        for start in (from..self.sizes.len()).rev() {
            let (cost, _) = self.cheapest_from(start, &onward, |_| 0.0);
            if let Some(slot) = onward.get_mut(start) {
                *slot = cost;
            }
        }
        onward
    }

    /// Finds the cheapest candidate from `start` on, given that the candidate before `start` was too small. Returns its cost, including all
    /// later tries, and the candidate. `onward`: the cost after each candidate; `more`: an extra cost of a candidate.
    fn cheapest_from(
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
            // memory reserved by all builds that are still open, minus what the builds that fit use
            let held = size.bytes * open - (size.used - below.used);
            let cost = held + self.price * (all.share - size.covered.share) + then + more(size);
            if cost < least {
                (least, best) = (cost, Some(size));
            }
        }
        (least, best)
    }
}
