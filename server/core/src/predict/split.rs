//! Splits needs into groups. Pure.
//!
//! On the logarithmic axis the needs are cut at the widest gaps, which is single-linkage clustering (Gower and Ross 1969). Then the
//! weakest cut is removed repeatedly, until each remaining one separates two groups:
//!
//! - each group has at least [`MIN_SHARE`] of the attempts, and at least [`FEWEST_OF_GROUP`];
//! - the gap between the inner 80 % of two neighbours is at least as wide as these ranges, and wider if the attempts are few (a stricter
//!   form of the separation of Ashman, Bird and Zepf 1994, with quantiles instead of deviations, because tails are long);
//! - the medians differ by [`MIN_MEDIAN_RATIO`] and by [`MIN_BYTES`]; smaller differences do not matter.
//!
//! A need that changed over time, at once or gradually, is not two groups: both groups must still occur. So the series in the order of
//! time must alternate (the number of runs, Wald and Wolfowitz 1940), and each group must occur in the newer half.
//!
//! Tuned on 60 % of the keys of Spack's CI and scored on the rest. In synthetic series of one group (normal, uniform, exponential, heavy
//! tails) it finds several in at most 4 %, mostly in less than 1 %; two groups with a ratio of 2 and a spread of 7 % are found in 96 % of
//! the series of 20 and in all of 60.

use crate::domain::float;

/// Fewest attempts that are split into groups.
const FEWEST_TO_SPLIT: usize = 8;
/// Fewest attempts of a group.
const FEWEST_OF_GROUP: usize = 3;
/// Least share of all attempts in a group.
const MIN_SHARE: f64 = 0.08;
/// Most groups into which attempts are split.
const MAX_GROUPS: usize = 4;
/// Number of the widest gaps that are tried as cuts: more than the groups, because some gaps only separate single outliers.
const MAX_GAPS: usize = 12;
/// Least ratio between the medians of neighbouring groups.
const MIN_MEDIAN_RATIO: f64 = 1.4;
/// Least difference between the medians of neighbouring groups, in bytes: the default memory floor.
const MIN_BYTES: f64 = 67_108_864.0;
/// Share of a group on each side that its inner range leaves out.
const OUTER_SHARE: f64 = 0.1;
/// Least gap between two groups of very many attempts, as a multiple of their inner ranges.
const MIN_GAP: f64 = 0.9;
/// Gap added for small groups, divided by the number of attempts.
const FEW_ATTEMPTS_GAP: f64 = 10.0;
/// Least width that an inner range is taken to have, as a logarithm to base 2: builds of one configuration differ by 3 %.
const NARROWEST_RANGE: f64 = 0.04;
/// Fewest runs of consecutive attempts of one group, in the order of time: the needs alternate at least twice.
const FEWEST_RUNS: usize = 5;
/// Fewest attempts that each group must have in the newer half of the attempts.
const FEWEST_LATE: usize = 2;

/// Lower bounds of all groups but the first, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NeedSplit {
    lower_bounds: Vec<f64>,
}

impl NeedSplit {
    /// Splits needs (finite logarithms to base 2 of bytes), oldest first; `None` if they are one group. Sorts the needs, and tries the 12
    /// widest gaps as cuts.
    pub(super) fn of(oldest_first: &[f64]) -> Option<Self> {
        if oldest_first.len() < FEWEST_TO_SPLIT {
            return None;
        }
        let mut sorted = oldest_first.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut cuts = widest_gaps(&sorted);
        while let Some(weakest) = weakest_cut(&sorted, &cuts) {
            cuts.remove(weakest);
        }
        let split = Self { lower_bounds: cuts.iter().filter_map(|cut| sorted.get(*cut).copied()).collect() };
        (!split.lower_bounds.is_empty() && split.still_mixed(oldest_first)).then_some(split)
    }

    /// Number of groups.
    fn count(&self) -> usize {
        self.lower_bounds.len() + 1
    }

    /// Index of the group that contains this need.
    pub(super) fn group_of(&self, need: f64) -> usize {
        self.lower_bounds.partition_point(|start| *start <= need)
    }

    /// Whether each group still occurs among the newer attempts, and the groups alternate.
    fn still_mixed(&self, oldest_first: &[f64]) -> bool {
        let groups: Vec<usize> = oldest_first.iter().map(|need| self.group_of(*need)).collect();
        let runs = groups.chunk_by(|a, b| a == b).count();
        let newer = groups.get(groups.len() / 2..).unwrap_or_default();
        let late = |group| newer.iter().filter(|of| **of == group).count() >= FEWEST_LATE;
        runs >= FEWEST_RUNS && (0..self.count()).all(late)
    }
}

/// Indexes of the values with the widest gaps below them, in ascending order.
fn widest_gaps(sorted: &[f64]) -> Vec<usize> {
    let mut gaps: Vec<(f64, usize)> =
        sorted.iter().zip(sorted.iter().skip(1)).enumerate().map(|(at, (a, b))| (b - a, at + 1)).collect();
    gaps.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    gaps.truncate(MAX_GAPS);
    let mut cuts: Vec<usize> = gaps.into_iter().map(|(_, at)| at).collect();
    cuts.sort_unstable();
    cuts
}

/// Index of the cut to remove next; `None` if every cut separates two groups.
fn weakest_cut(sorted: &[f64], cuts: &[usize]) -> Option<usize> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([sorted.len()]);
    let parts: Vec<&[f64]> = starts.zip(ends).filter_map(|(start, end)| sorted.get(start..end)).collect();
    let clear = |pair: &[&[f64]]| match pair {
        [below, above] => clearness(below, above),
        _ => f64::INFINITY,
    };
    let scores = parts.windows(2).map(clear).enumerate();
    let (at, least) = scores.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let enough = FEWEST_OF_GROUP.max(share_of(sorted.len()));
    let (small, part) = parts.iter().enumerate().min_by_key(|(_, part)| part.len())?;
    if part.len() < enough {
        return Some(cut_to_nearer(&parts, small));
    }
    (least < 1.0 || parts.len() > MAX_GROUPS).then_some(at)
}

/// The cut between the group at index `small` and its nearer neighbour.
fn cut_to_nearer(parts: &[&[f64]], small: usize) -> usize {
    let gap = |above: usize| {
        let edges = above
            .checked_sub(1)
            .and_then(|below| Some((parts.get(below)?.last()?, parts.get(above)?.first()?)));
        edges.map_or(f64::INFINITY, |(below, above)| above - below)
    };
    if gap(small) <= gap(small + 1) { small.saturating_sub(1) } else { small }
}

/// How clearly two neighbouring groups are separated; 1 or more is enough.
fn clearness(below: &[f64], above: &[f64]) -> f64 {
    let inner = |part| [quantile(part, OUTER_SHARE), quantile(part, 0.5), quantile(part, 1.0 - OUTER_SHARE)];
    let ([low, middle, high], [above_low, above_middle, above_high]) = (inner(below), inner(above));
    let width = (high - low).max(above_high - above_low).max(NARROWEST_RANGE);
    let wanted = MIN_GAP + FEW_ATTEMPTS_GAP / float(below.len() + above.len());
    let gap = (above_low - high) / (wanted * width);
    let ratio = (above_middle - middle) / MIN_MEDIAN_RATIO.log2();
    let bytes = (above_middle.exp2() - middle.exp2()) / MIN_BYTES;
    gap.min(ratio).min(bytes)
}

/// Quantile with linear interpolation (type 7 of Hyndman and Fan 1996); 0 if empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * float(sorted.len().saturating_sub(1));
    let below = floor_index(place);
    let at = |index: usize| sorted.get(index).or_else(|| sorted.last()).copied().unwrap_or_default();
    at(below) + (at(below + 1) - at(below)) * (place - float(below))
}

fn share_of(count: usize) -> usize {
    floor_index((MIN_SHARE * float(count)).ceil())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a list, never below 0"
)]
fn floor_index(place: f64) -> usize {
    place as usize
}

#[cfg(test)]
mod tests;
