//! Whether a row of needs is one group or several, and where one ends. Pure.
//!
//! On the logarithmic axis cuts are made at the widest gaps, which is single-linkage clustering (Gower and Ross 1969). Then the
//! weakest cut goes, one after the other, until each that is left separates two groups:
//!
//! - each group holds [`LEAST_SHARE`] of the attempts, and [`LEAST`] of them;
//! - the gap between the inner 80 % of two neighbours is as wide as those are themselves, the more so the fewer there are
//!   (a stricter form of the separation of Ashman, Bird and Zepf 1994: quantiles in the place of deviations, because tails are long);
//! - the medians lie apart by [`RATIO`] and by [`LEAST_BYTES`], else it does not matter.
//!
//! Needs that have moved, at once or little by little, are not two groups: both must go on. So the row, in the order of time, must
//! go back and forth (the number of runs, Wald and Wolfowitz 1940), and each group must be among the newer half.
//!
//! Tuned on 60 % of the keys of Spack's CI and scored on the others. In made rows of one group (normal, even, exponential, heavy
//! tails) it sees several in at most 4 %, mostly in less than 1 %; two groups that lie apart by 2 with a spread of 7 % are seen in
//! 96 % of the rows of 20 and in all of 60.

/// Attempts below which nothing is said.
pub(super) const FEWEST: usize = 8;
/// Attempts of a group.
const LEAST: usize = 3;
/// Share of all attempts that a group has at least.
const LEAST_SHARE: f64 = 0.08;
/// Groups at most.
pub(super) const MOST: usize = 4;
/// Cuts that are tried: more than groups, so that values far off do not take the place of one.
const CUTS: usize = 12;
/// Medians of neighbours lie apart by this factor.
const RATIO: f64 = 1.4;
/// And by so many bytes: no memory size goes below that by default.
const LEAST_BYTES: f64 = 67_108_864.0;
/// Part of a group that lies outside of its inner range, on each side.
const OUTER: f64 = 0.1;
/// The gap, in inner ranges, between two groups of very many.
const CLEAR: f64 = 0.9;
/// And so much more, divided by how many attempts both have.
const CLEAR_FEW: f64 = 10.0;
/// Inner ranges are taken as at least this wide, as a logarithm to base 2: builds of one configuration differ by 3 %.
const NARROWEST: f64 = 0.04;
/// Runs in the order of time: the needs go back and forth twice.
const RUNS: usize = 5;
/// Attempts of each group among the newer half of all.
const LATE: usize = 2;

/// Where each group but the first begins, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::predict) struct NeedSplit {
    starts: Vec<f64>,
}

impl NeedSplit {
    /// The groups of needs (finite logarithms to base 2 of bytes), oldest first; `None` if they are one. Sorts them, and looks at 12 cuts.
    pub(in crate::predict) fn of(oldest_first: &[f64]) -> Option<Self> {
        if oldest_first.len() < FEWEST {
            return None;
        }
        let mut sorted = oldest_first.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut cuts = widest_gaps(&sorted);
        while let Some(weakest) = weakest(&sorted, &cuts) {
            cuts.remove(weakest);
        }
        let split = Self { starts: cuts.iter().filter_map(|cut| sorted.get(*cut).copied()).collect() };
        (!split.starts.is_empty() && split.goes_on(oldest_first)).then_some(split)
    }

    /// How many groups there are.
    pub(super) fn count(&self) -> usize {
        self.starts.len() + 1
    }

    /// The place of the group that holds this need.
    pub(in crate::predict) fn group_of(&self, need: f64) -> usize {
        self.starts.partition_point(|start| *start <= need)
    }

    /// Whether all groups go on side by side.
    fn goes_on(&self, oldest_first: &[f64]) -> bool {
        let groups: Vec<usize> = oldest_first.iter().map(|need| self.group_of(*need)).collect();
        let runs = groups.chunk_by(|a, b| a == b).count();
        let newer = groups.get(groups.len() / 2..).unwrap_or_default();
        let late = |group| newer.iter().filter(|of| **of == group).count() >= LATE;
        runs >= RUNS && (0..self.count()).all(late)
    }
}

/// Places of the values that lie farthest above the one before them, in ascending order.
fn widest_gaps(sorted: &[f64]) -> Vec<usize> {
    let mut gaps: Vec<(f64, usize)> =
        sorted.iter().zip(sorted.iter().skip(1)).enumerate().map(|(at, (a, b))| (b - a, at + 1)).collect();
    gaps.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    gaps.truncate(CUTS);
    let mut cuts: Vec<usize> = gaps.into_iter().map(|(_, at)| at).collect();
    cuts.sort_unstable();
    cuts
}

/// The place of the cut that must go first; `None` if all of them separate groups.
fn weakest(sorted: &[f64], cuts: &[usize]) -> Option<usize> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([sorted.len()]);
    let parts: Vec<&[f64]> = starts.zip(ends).filter_map(|(start, end)| sorted.get(start..end)).collect();
    let clear = |pair: &[&[f64]]| match pair {
        [below, above] => clearness(below, above),
        _ => f64::INFINITY,
    };
    let scores = parts.windows(2).map(clear).enumerate();
    let (at, least) = scores.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let enough = LEAST.max(share_of(sorted.len()));
    let (small, part) = parts.iter().enumerate().min_by_key(|(_, part)| part.len())?;
    if part.len() < enough {
        return Some(nearer(&parts, small));
    }
    (least < 1.0 || parts.len() > MOST).then_some(at)
}

/// The cut between a part and the neighbour that is nearer to it.
fn nearer(parts: &[&[f64]], small: usize) -> usize {
    let gap = |above: usize| {
        let edges = above
            .checked_sub(1)
            .and_then(|below| Some((parts.get(below)?.last()?, parts.get(above)?.first()?)));
        edges.map_or(f64::INFINITY, |(below, above)| above - below)
    };
    if gap(small) <= gap(small + 1) { small.saturating_sub(1) } else { small }
}

/// 1 or more for two parts that are two groups: how far they lie apart, in what they must.
fn clearness(below: &[f64], above: &[f64]) -> f64 {
    let inner = |part| [quantile(part, OUTER), quantile(part, 0.5), quantile(part, 1.0 - OUTER)];
    let ([low, middle, high], [above_low, above_middle, above_high]) = (inner(below), inner(above));
    let width = (high - low).max(above_high - above_low).max(NARROWEST);
    let wanted = CLEAR + CLEAR_FEW / float(below.len() + above.len());
    let gap = (above_low - high) / (wanted * width);
    let ratio = (above_middle - middle) / RATIO.log2();
    let bytes = (above_middle.exp2() - middle.exp2()) / LEAST_BYTES;
    gap.min(ratio).min(bytes)
}

/// Between the two nearest values (type 7 of Hyndman and Fan 1996); 0 of nothing.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * float(sorted.len().saturating_sub(1));
    let below = floor(place);
    let at = |index: usize| sorted.get(index).or_else(|| sorted.last()).copied().unwrap_or_default();
    at(below) + (at(below + 1) - at(below)) * (place - float(below))
}

fn share_of(count: usize) -> usize {
    floor((LEAST_SHARE * float(count)).ceil())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a list, never below 0"
)]
fn floor(place: f64) -> usize {
    place as usize
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
