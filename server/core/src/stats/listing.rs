//! The attempts of one page of a list. Pure: it is shown briefs, in any order, and keeps the first ones behind a place.
//!
//! A page costs one look at every attempt, and holds no more than [`KEPT`] pages of them, whatever the order and the filter.

use std::{cmp::Reverse, sync::Arc};

use crate::domain::{AttemptBrief, AttemptId};

/// Ranks between which an attempt may stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankBounds {
    pub(super) lowest: u64,
    pub(super) highest: u64,
}

/// Candidates are cut to a page when there are this many pages of them: then each costs the same, however they come.
const KEPT: usize = 4;

/// Candidates that are gathered at least before they are cut.
const KEPT_AT_LEAST: usize = 1024;

/// What comes first in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOrder {
    /// The newest end.
    Newest,
    /// The oldest end.
    Oldest,
    /// The most memory wasted, in GiB x h.
    Waste,
    /// The highest need.
    Need,
    /// The longest.
    Wall,
}

/// Where an attempt stands in an order; the greatest comes first. Attempts do not move when others come or go, so that a page
/// goes on where the one before it ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    /// What the order looks at.
    pub rank: u64,
    /// End, milliseconds since 1970: of equals the newest comes first.
    pub ended_unix_ms: u64,
    /// Of those that ended at the same time, the one with the greatest id.
    pub attempt: AttemptId,
}

impl AttemptOrder {
    pub(super) fn rank(self, brief: &AttemptBrief) -> u64 {
        match self {
            Self::Newest => brief.ended_unix_ms(),
            Self::Oldest => u64::MAX - brief.ended_unix_ms(),
            // the bits of floats that are not below zero are in the order of the floats
            Self::Waste => wasted_gib_hours(brief).to_bits(),
            Self::Need => brief.need_peak.0,
            Self::Wall => brief.wall.0,
        }
    }
}

/// 0 if it asked for nothing, or its use was not measured.
fn wasted_gib_hours(brief: &AttemptBrief) -> f64 {
    brief.memory_use().map_or(0.0, |memory| memory.wasted)
}

/// A page that is being chosen.
#[derive(Debug)]
pub struct PageBuilder {
    order: AttemptOrder,
    size: usize,
    /// Only attempts behind this place.
    after: Option<ListCursor>,
    /// Attempts up to this place cannot be on the page any more.
    worst: Option<(u64, u64)>,
    candidates: Vec<Candidate>,
}

/// Rank, end, and who it is.
type Candidate = (u64, u64, Arc<AttemptBrief>);

/// The attempts of one page in their order.
#[derive(Debug, Default)]
pub struct AttemptPage {
    /// Where each of them stands.
    pub places: Vec<ListCursor>,
    /// There are more behind them.
    pub more: bool,
}

impl PageBuilder {
    /// A page of `size` attempts behind `after`.
    pub fn new(order: AttemptOrder, size: usize, after: Option<ListCursor>) -> Self {
        Self { order, size, after, worst: None, candidates: Vec::new() }
    }

    pub(super) fn order(&self) -> AttemptOrder {
        self.order
    }

    /// Whether an attempt whose rank lies between these may be on the page, as far as is known by now.
    pub(super) fn may_take(&self, ranks: RankBounds) -> bool {
        self.worst.is_none_or(|(worst, _)| ranks.highest >= worst)
            && self.after.as_ref().is_none_or(|after| ranks.lowest <= after.rank)
    }

    /// Takes an attempt into account, if it counts.
    pub(crate) fn look_if(&mut self, counts: bool, brief: &Arc<AttemptBrief>) {
        if counts {
            self.look(brief);
        }
    }

    /// Takes an attempt into account that counts.
    pub fn look(&mut self, brief: &Arc<AttemptBrief>) {
        let (rank, ended) = (self.order.rank(brief), brief.ended_unix_ms());
        if self.worst.is_some_and(|worst| (rank, ended) < worst) {
            return;
        }
        let shown = self.after.as_ref().is_some_and(|after| {
            (rank, ended, &brief.attempt) >= (after.rank, after.ended_unix_ms, &after.attempt)
        });
        if shown {
            return;
        }
        self.candidates.push((rank, ended, Arc::clone(brief)));
        if self.candidates.len() >= KEPT_AT_LEAST.max(self.size * KEPT) {
            self.cut();
        }
    }

    /// Lets all go that cannot be on the page, nor be the one behind it.
    fn cut(&mut self) {
        let last = self.size;
        if self.candidates.len() > last {
            let (_, worst, _) = self.candidates.select_nth_unstable_by(last, first_first);
            self.worst = Some((worst.0, worst.1));
            self.candidates.truncate(last + 1);
        }
    }

    /// The page.
    pub fn choose(mut self) -> AttemptPage {
        self.candidates.sort_unstable_by(first_first);
        let more = self.candidates.len() > self.size;
        let place = |(rank, ended_unix_ms, brief): Candidate| ListCursor {
            rank,
            ended_unix_ms,
            attempt: brief.attempt.clone(),
        };
        AttemptPage { places: self.candidates.into_iter().take(self.size).map(place).collect(), more }
    }
}

fn first_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let place = |candidate: &Candidate| Reverse((candidate.0, candidate.1));
    place(a).cmp(&place(b)).then_with(|| b.2.attempt.cmp(&a.2.attempt))
}

#[cfg(test)]
mod tests;
