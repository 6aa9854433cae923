//! Estimates an attempt's rank in a list from its row alone. Rows are next to each other in memory and attempts are not, so most of a
//! million attempts are skipped without being read.

use plimsoll_proto::v1::AttemptOrder;

use crate::domain::RequestUsage;
use crate::stats::{
    attempts::chunk::Chunk,
    attempts::listing::{PageBuilder, RankBounds},
    attempts::row::AttemptRow,
};

/// Relative error of a number of 24 bits, or of the difference of two such numbers, with a margin.
const RELATIVE_ERROR: f64 = 1e-6;

/// The lowest and the highest rank that the attempt of this row can have.
fn ranks(order: AttemptOrder, row: &AttemptRow) -> RankBounds {
    match order {
        AttemptOrder::Unspecified => end_bounds(row.ended, row.ended),
        AttemptOrder::Oldest => reversed(end_bounds(row.ended, row.ended)),
        AttemptOrder::Need => bounds_around(f64::from(row.need) * f64::from(1 << 30)),
        AttemptOrder::Wall => bounds_around(f64::from(row.wall) * 3.6e6),
        AttemptOrder::Waste => {
            let held = row.memory_use().unwrap_or(RequestUsage { asked: 0.0, used: 0.0, wasted: 0.0 });
            let (wasted, held) = (held.wasted, held.asked);
            RankBounds {
                lowest_rank: (wasted - held * RELATIVE_ERROR).max(0.0).to_bits(),
                highest_rank: (wasted + held * RELATIVE_ERROR).to_bits(),
            }
        }
    }
}

/// The highest rank that an attempt in the chunk can have.
fn highest(order: AttemptOrder, chunk: &Chunk) -> u64 {
    let (first, last) = chunk.end_range().unwrap_or_default();
    match order {
        AttemptOrder::Unspecified => end_bounds(first, last).highest_rank,
        AttemptOrder::Oldest => reversed(end_bounds(first, last)).highest_rank,
        AttemptOrder::Need | AttemptOrder::Wall | AttemptOrder::Waste => u64::MAX,
    }
}

/// Converts whole seconds to milliseconds: the earliest and the latest possible end. The largest number of seconds means "that time or
/// later".
fn end_bounds(first: u32, last: u32) -> RankBounds {
    let latest = if last == u32::MAX { u64::MAX } else { u64::from(last) * 1000 + 999 };
    RankBounds { lowest_rank: u64::from(first) * 1000, highest_rank: latest }
}

fn reversed(ended: RankBounds) -> RankBounds {
    RankBounds { lowest_rank: u64::MAX - ended.highest_rank, highest_rank: u64::MAX - ended.lowest_rank }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not below zero, and what is too large becomes the largest"
)]
fn bounds_around(value: f64) -> RankBounds {
    RankBounds {
        lowest_rank: (value * (1.0 - RELATIVE_ERROR)) as u64,
        highest_rank: (value * (1.0 + RELATIVE_ERROR) + 1.0) as u64,
    }
}

impl PageBuilder {
    /// Sorts chunks so that those with the highest possible ranks come first: they fill the page, and later ones can then be skipped.
    pub(in crate::stats) fn best_first<'a>(&self, chunks: impl Iterator<Item = &'a Chunk>) -> Vec<&'a Chunk> {
        let mut chunks: Vec<&Chunk> = chunks.collect();
        chunks.sort_by_key(|chunk| std::cmp::Reverse(highest(self.order(), chunk)));
        chunks
    }

    /// Whether a row of the chunk may be on the page.
    pub(in crate::stats) fn may_take_of(&self, chunk: &Chunk) -> bool {
        self.may_take(RankBounds { lowest_rank: 0, highest_rank: highest(self.order(), chunk) })
    }

    pub(in crate::stats) fn may_take_row(&self, row: &AttemptRow) -> bool {
        self.may_take(ranks(self.order(), row))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_proto::WireEnum as _;

    use super::*;
    use crate::{
        domain::{AttemptBrief, Bytes, Millis, Outcome, Resources, Summary, test_summary},
        stats::{Filter, Settings, Stats, attempts::listing::rank},
    };

    /// Attempts with numbers of more digits than a row keeps.
    fn briefs(count: u64) -> Vec<(Summary, Arc<AttemptBrief>)> {
        let one = |n: u64| {
            let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
            let mut summary = test_summary(&format!("{n}"), "zlib", "1", 1);
            summary.wall = Millis(random % 90_000_001);
            summary.started_unix_ms += random % 900_000_007;
            (summary.need_peak, summary.need_mean) = (Bytes(random % (1 << 37)), Bytes(random % (1 << 33)));
            let asked = (!n.is_multiple_of(3)).then_some(Bytes(random % (1 << 35)));
            summary.resources = Resources { memory_limit: asked, ..Resources::default() };
            summary.outcome = if n.is_multiple_of(5) { Outcome::Failed } else { Outcome::Succeeded };
            let brief = Arc::new(AttemptBrief::from(&summary));
            (summary, brief)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn an_attempts_rank_lies_within_its_rows_bounds() {
        for (summary, brief) in briefs(20_000) {
            let row = AttemptRow::new(&brief, &(&summary).into(), 0);
            for order in AttemptOrder::all().chain([AttemptOrder::Unspecified]) {
                let (RankBounds { lowest_rank, highest_rank }, rank) =
                    (ranks(order, &row), rank(order, &brief));
                assert!(lowest_rank <= rank, "{order:?}: {lowest_rank} {rank} {highest_rank} of {brief:?}");
                assert!(rank <= highest_rank, "{order:?}: {lowest_rank} {rank} {highest_rank} of {brief:?}");
            }
        }
    }

    /// A page that was shown every attempt.
    fn looked_at(all: &[(Summary, Arc<AttemptBrief>)], mut page: PageBuilder) -> PageBuilder {
        for (_, brief) in all {
            page.consider(brief);
        }
        page
    }

    #[test]
    fn pages_from_rows_equal_pages_from_attempts() {
        let all = briefs(9000);
        let stats = Stats::new(Settings::default());
        for (summary, brief) in &all {
            stats.add(&summary.into(), brief);
        }
        for order in AttemptOrder::all().chain([AttemptOrder::Unspecified]) {
            let mut after = None;
            for size in [1, 100, 1000, 3000] {
                let plain = looked_at(&all, PageBuilder::new(order, size, after.clone()));
                let (plain, page) = (plain.finish(), PageBuilder::new(order, size, after.clone()));
                let chosen = stats.list(&Filter::default(), page);
                assert_eq!(plain.cursors, chosen.cursors, "{order:?} {size}");
                assert_eq!(plain.has_more, chosen.has_more, "{order:?} {size}");
                after = chosen.cursors.last().cloned();
            }
        }
    }
}
