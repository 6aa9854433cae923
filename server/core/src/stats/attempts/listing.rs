//! Selects the attempts of one page of a list. It is pure: it gets attempts in any order, and keeps those that come first after a cursor.
//!
//! A page examines every attempt once, and keeps at most [`MAX_CANDIDATE_PAGES`] pages of them in memory, for every order and filter.

use std::{cmp::Reverse, sync::Arc};

use plimsoll_proto::v1::AttemptOrder;

use crate::domain::{AttemptBrief, AttemptId};

/// Lowest and highest rank that an attempt can have: its row has rounded numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::stats) struct RankBounds {
    pub(in crate::stats) lowest_rank: u64,
    pub(in crate::stats) highest_rank: u64,
}

/// Candidates are reduced to one page once there are this many pages of them. So the cost for each candidate is constant, whatever the
/// order.
const MAX_CANDIDATE_PAGES: usize = 4;

/// Fewest candidates that are reduced to one page.
const MIN_CANDIDATES: usize = 1024;

/// Position of an attempt in a sort order; the greatest position comes first. Other attempts do not change it, so a page continues exactly
/// where the one before it ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    /// The value that the list is sorted by.
    pub rank: u64,
    /// End of the attempt, milliseconds since 1970: at equal rank, the latest end comes first.
    pub ended_unix_ms: u64,
    /// Id of the attempt: at equal end, the greatest id comes first.
    pub attempt: AttemptId,
}

/// The rank of an attempt in a list in this order.
pub(in crate::stats) fn rank(order: AttemptOrder, brief: &AttemptBrief) -> u64 {
    match order {
        AttemptOrder::Unspecified => brief.ended_unix_ms(),
        AttemptOrder::Oldest => u64::MAX - brief.ended_unix_ms(),
        // the bits of non-negative floats have the same order as the floats
        AttemptOrder::Waste => wasted_gib_hours(brief).to_bits(),
        AttemptOrder::Need => brief.need_peak.0,
        AttemptOrder::Wall => brief.wall.0,
    }
}

/// Memory that an attempt wasted, GiB x h; 0 if it requested none, or its use was not measured.
fn wasted_gib_hours(brief: &AttemptBrief) -> f64 {
    brief.memory_use().map_or(0.0, |memory| memory.wasted)
}

/// Selects the attempts of one page of the list: it is shown all attempts one by one, and keeps those of the page.
#[derive(Debug)]
pub struct PageBuilder {
    order: AttemptOrder,
    size: usize,
    /// Only attempts after this position are selected.
    after: Option<ListCursor>,
    /// Rank and end of the last candidate that can be on the page: attempts below it cannot.
    worst: Option<(u64, u64)>,
    candidates: Vec<Candidate>,
}

/// Rank and end of an attempt, and the attempt.
type Candidate = (u64, u64, Arc<AttemptBrief>);

/// The attempts of one page, in order.
#[derive(Debug, Default)]
pub struct AttemptPage {
    /// Position of each of the attempts.
    pub cursors: Vec<ListCursor>,
    /// Whether more attempts follow.
    pub has_more: bool,
}

impl PageBuilder {
    /// Starts a page of `size` attempts that come after the position `after`.
    pub fn new(order: AttemptOrder, size: usize, after: Option<ListCursor>) -> Self {
        Self { order, size, after, worst: None, candidates: Vec::new() }
    }

    pub(in crate::stats) fn order(&self) -> AttemptOrder {
        self.order
    }

    /// Whether an attempt with a rank in this range may be on the page.
    pub(in crate::stats) fn may_take(&self, ranks: RankBounds) -> bool {
        self.worst.is_none_or(|(worst, _)| ranks.highest_rank >= worst)
            && self.after.as_ref().is_none_or(|after| ranks.lowest_rank <= after.rank)
    }

    pub(crate) fn consider_if(&mut self, counts: bool, brief: &Arc<AttemptBrief>) {
        if counts {
            self.consider(brief);
        }
    }

    /// Considers an attempt for the page.
    pub fn consider(&mut self, brief: &Arc<AttemptBrief>) {
        let (rank, ended) = (rank(self.order, brief), brief.ended_unix_ms());
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
        if self.candidates.len() >= MIN_CANDIDATES.max(self.size * MAX_CANDIDATE_PAGES) {
            self.drop_excess();
        }
    }

    /// Drops the candidates that are neither on the page nor the first one after it.
    fn drop_excess(&mut self) {
        let last = self.size;
        if self.candidates.len() > last {
            let (_, worst, _) = self.candidates.select_nth_unstable_by(last, page_order);
            self.worst = Some((worst.0, worst.1));
            self.candidates.truncate(last + 1);
        }
    }

    /// Returns the page.
    pub fn finish(mut self) -> AttemptPage {
        self.candidates.sort_unstable_by(page_order);
        let more = self.candidates.len() > self.size;
        let place = |(rank, ended_unix_ms, brief): Candidate| ListCursor {
            rank,
            ended_unix_ms,
            attempt: brief.attempt.clone(),
        };
        AttemptPage {
            cursors: self.candidates.into_iter().take(self.size).map(place).collect(),
            has_more: more,
        }
    }
}

fn page_order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let place = |candidate: &Candidate| Reverse((candidate.0, candidate.1));
    place(a).cmp(&place(b)).then_with(|| b.2.attempt.cmp(&a.2.attempt))
}

#[cfg(test)]
mod tests;
