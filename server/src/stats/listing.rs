//! The attempts of one page of a list. Pure: it is shown briefs, in any order, and keeps the first ones behind a place.
//!
//! A page costs one look at every attempt, and holds no more than [`KEPT`] pages of them, whatever the order and the filter.

use std::{cmp::Reverse, sync::Arc};

use crate::domain::{AttemptId, Brief};

/// Candidates are cut to a page when there are this many pages of them: then each costs the same, however they come.
const KEPT: usize = 4;

/// Candidates that are gathered at least before they are cut.
const KEPT_AT_LEAST: usize = 1024;

/// What comes first in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
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
pub(crate) struct Place {
    /// What the order looks at.
    pub(crate) rank: u64,
    /// End, milliseconds since 1970: of equals the newest comes first.
    pub(crate) ended_unix_ms: u64,
    /// Of those that ended at the same time, the one with the greatest id.
    pub(crate) attempt: AttemptId,
}

impl Order {
    pub(super) fn rank(self, brief: &Brief) -> u64 {
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
fn wasted_gib_hours(brief: &Brief) -> f64 {
    brief.memory_use().map_or(0.0, |memory| memory.wasted)
}

/// A page that is being chosen.
#[derive(Debug)]
pub(crate) struct Listing {
    order: Order,
    size: usize,
    /// Only attempts behind this place.
    after: Option<Place>,
    /// Attempts up to this place cannot be on the page any more.
    worst: Option<(u64, u64)>,
    candidates: Vec<Candidate>,
}

/// Rank, end, and who it is.
type Candidate = (u64, u64, Arc<Brief>);

/// The attempts of one page in their order.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) places: Vec<Place>,
    /// There are more behind them.
    pub(crate) more: bool,
}

impl Listing {
    /// A page of `size` attempts behind `after`.
    pub(crate) fn new(order: Order, size: usize, after: Option<Place>) -> Self {
        Self { order, size, after, worst: None, candidates: Vec::new() }
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Whether an attempt whose rank lies between these may be on the page, as far as is known by now.
    pub(super) fn may_take(&self, (lowest, highest): (u64, u64)) -> bool {
        self.worst.is_none_or(|(worst, _)| highest >= worst)
            && self.after.as_ref().is_none_or(|after| lowest <= after.rank)
    }

    /// Takes an attempt into account, if it counts.
    pub(crate) fn look_if(&mut self, counts: bool, brief: &Arc<Brief>) {
        if counts {
            self.look(brief);
        }
    }

    /// Takes an attempt into account that counts.
    pub(crate) fn look(&mut self, brief: &Arc<Brief>) {
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
    pub(crate) fn choose(mut self) -> Chosen {
        self.candidates.sort_unstable_by(first_first);
        let more = self.candidates.len() > self.size;
        let place = |(rank, ended_unix_ms, brief): Candidate| Place {
            rank,
            ended_unix_ms,
            attempt: brief.attempt.clone(),
        };
        Chosen { places: self.candidates.into_iter().take(self.size).map(place).collect(), more }
    }
}

fn first_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let place = |candidate: &Candidate| Reverse((candidate.0, candidate.1));
    place(a).cmp(&place(b)).then_with(|| b.2.attempt.cmp(&a.2.attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Bytes, Millis, Outcome, Resources, Summary, test_summary};

    /// Attempts whose ends, needs and lengths go different ways.
    fn attempts(count: u64) -> Vec<Arc<Brief>> {
        let one = |n: u64| {
            let mut summary = test_summary(&n.to_string(), "zlib", "1", 1 + n * 7919 % 1009);
            summary.wall = Millis(1000 + n * 104_729 % 9973);
            summary.started_unix_ms += n * 1000 / 3;
            Arc::new(Brief::from(&summary))
        };
        (0..count).map(one).collect()
    }

    fn pages(attempts: &[Arc<Brief>], order: Order, size: usize) -> Vec<String> {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let mut listing = Listing::new(order, size, after);
            for brief in attempts {
                listing.look(brief);
            }
            let chosen = listing.choose();
            assert!(chosen.places.len() <= size);
            seen.extend(chosen.places.iter().map(|place| place.attempt.to_string()));
            after = chosen.places.last().cloned();
            if !chosen.more {
                return seen;
            }
        }
    }

    #[test]
    fn pages_of_any_order_cover_everything_once_whichever_way_they_are_looked_at() {
        let mut all = attempts(5000);
        for order in [Order::Newest, Order::Oldest, Order::Waste, Order::Need, Order::Wall] {
            let seen = pages(&all, order, 700);
            let mut places: Vec<_> =
                all.iter().map(|b| (order.rank(b), b.ended_unix_ms(), b.attempt.clone())).collect();
            places.sort_by(|a, b| b.cmp(a));
            let expected: Vec<String> = places.iter().map(|(_, _, id)| id.to_string()).collect();
            assert!(seen == expected, "{order:?}");
            all.reverse();
            assert!(pages(&all, order, 999) == expected, "{order:?} the other way");
        }
    }

    #[test]
    fn attempts_that_come_meanwhile_do_not_shift_the_pages() {
        let all = attempts(40);
        let page = |attempts: &[Arc<Brief>], after| {
            let mut listing = Listing::new(Order::Wall, 10, after);
            for brief in attempts {
                listing.look(brief);
            }
            listing.choose().places
        };
        // ten more come between the first page and the second
        let first = page(&all[..30], None);
        let second = page(&all, first.last().cloned());
        let mut behind = page(&all, None);
        behind.extend(page(&all, behind.last().cloned()));
        behind.extend(page(&all, behind.last().cloned()));
        behind.retain(|place| Some(place) < first.last());
        assert_eq!(second, behind[..10]);
    }

    #[test]
    fn what_a_failed_attempt_held_is_wasted_and_what_one_without_an_ask_used_is_not() {
        let resources = Resources { memory_limit: Some(Bytes(4 << 30)), ..Resources::default() };
        let good = Summary { resources, ..test_summary("good", "zlib", "1", 2048) };
        let failed =
            Summary { outcome: Outcome::Failed, attempt: AttemptId::parse("bad").unwrap(), ..good.clone() };
        let silent = Summary { resources: Resources::default(), ..test_summary("silent", "zlib", "1", 9) };
        let wasted = |summary: Summary| wasted_gib_hours(&Brief::from(&summary)) * 60.0;
        assert!((wasted(good) - 3.0).abs() < 1e-9);
        assert!((wasted(failed) - 4.0).abs() < 1e-9);
        assert_eq!(Order::Waste.rank(&Brief::from(&silent)), 0);
    }
}
