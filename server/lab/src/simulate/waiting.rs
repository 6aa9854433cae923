//! The queue of builds that wait for a node, the oldest first, with a fast search for the next build that fits.
//!
//! A binary tree over the queue has, for each part of the queue, the least cores and the least memory that a
//! build in it requests. If even these are too much for the free nodes, the whole part is skipped. If the
//! builds are similar, the search examines only a few.
//!
//! The two minimums may come from two different builds. If builds with many cores and little memory wait among
//! builds of the opposite kind, a part may seem to have a fitting build although it has none. In the worst case
//! each search examines every waiting build, and a run takes time with the square of their number.

use std::ops::Range;

use super::nodes::BuildSize;

/// Number of builds that the smallest tree has room for; a power of two.
const MIN_BUILDS: usize = 16;

/// The least cores (in thousandths) and the least memory (in bytes) of some builds; they may come from two
/// builds.
type LeastSize = (u64, u64);

/// Size of a part of the queue without builds: more than any node has.
const EMPTY_SLOT_SIZE: LeastSize = (u64::MAX, u64::MAX);

/// The waiting builds, in the order in which they began to wait. The memory is at most that for four times as
/// many builds.
#[derive(Debug)]
pub(super) struct WaitingBuilds {
    /// Number and size of each build; `None` for a build that was removed.
    builds: Vec<Option<(usize, BuildSize)>>,
    /// For each node of the tree its minimums. Its leaves are the builds, a power of two. The root is at 1, and
    /// the children of `at` are `2 * at` and `2 * at + 1`.
    tree: Vec<LeastSize>,
    /// Number of waiting builds.
    count: usize,
}

impl WaitingBuilds {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Self { builds: Vec::new(), tree: vec![EMPTY_SLOT_SIZE; 2 * MIN_BUILDS], count: 0 }
    }

    /// Adds a build at the end.
    pub(super) fn push(&mut self, build: usize, size: BuildSize) {
        if self.builds.len() == self.capacity() {
            self.compact();
        }
        self.builds.push(Some((build, size)));
        self.count += 1;
        self.set_least(self.builds.len() - 1, (size.millicores, size.memory));
    }

    /// The first build at position `from` or later that is not too large: its position, number and size.
    /// `too_large` must also be true for every larger size: with more cores, more memory, or both.
    pub(super) fn first(
        &self,
        from: usize,
        too_large: &mut impl FnMut(LeastSize) -> bool,
    ) -> Option<(usize, usize, BuildSize)> {
        let at = self.find(1, 0..self.capacity(), from, too_large)?;
        self.builds.get(at).copied().flatten().map(|(build, size)| (at, build, size))
    }

    /// Removes the build at this position. The other builds keep their positions.
    pub(super) fn remove(&mut self, at: usize) {
        if let Some(build) = self.builds.get_mut(at)
            && build.take().is_some()
        {
            self.count -= 1;
            self.set_least(at, EMPTY_SLOT_SIZE);
        }
    }

    fn capacity(&self) -> usize {
        self.tree.len() / 2
    }

    /// Searches the positions `below` a node of the tree for the first build from `from` on that is not too
    /// large.
    fn find(
        &self,
        node: usize,
        below: Range<usize>,
        from: usize,
        too_large: &mut impl FnMut(LeastSize) -> bool,
    ) -> Option<usize> {
        let least = self.tree.get(node).copied().unwrap_or(EMPTY_SLOT_SIZE);
        if below.end <= from || least == EMPTY_SLOT_SIZE || too_large(least) {
            return None;
        }
        if below.len() == 1 {
            return Some(below.start);
        }
        let middle = below.start.midpoint(below.end);
        let older = self.find(2 * node, below.start..middle, from, too_large);
        older.or_else(|| self.find(2 * node + 1, middle..below.end, from, too_large))
    }

    fn set_least(&mut self, at: usize, least: LeastSize) {
        let mut node = self.capacity() + at;
        if let Some(place) = self.tree.get_mut(node) {
            *place = least;
        }
        while node > 1 {
            node /= 2;
            let half = |at: usize| self.tree.get(at).copied().unwrap_or(EMPTY_SLOT_SIZE);
            let (one, other) = (half(2 * node), half(2 * node + 1));
            if let Some(place) = self.tree.get_mut(node) {
                *place = (one.0.min(other.0), one.1.min(other.1));
            }
        }
    }

    /// Removes the gaps of removed builds, and makes room for as many further builds as wait now.
    fn compact(&mut self) {
        let waiting: Vec<(usize, BuildSize)> = self.builds.drain(..).flatten().collect();
        let room = (2 * waiting.len()).next_power_of_two().max(MIN_BUILDS);
        self.tree = vec![EMPTY_SLOT_SIZE; 2 * room];
        self.count = 0;
        for (build, size) in waiting {
            self.push(build, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(milli: u64, memory: u64) -> BuildSize {
        BuildSize { millicores: milli, memory, limit: memory, peak_use: memory, is_long: false }
    }

    proptest! {
        #[test]
        fn the_first_is_also_the_first_of_a_plain_list(
            steps in prop::collection::vec((0..4_u8, 1..9_u64, 1..9_u64, 0..9_u64, 0..9_u64), 1..400)
        ) {
            let (mut waiting, mut plain) = (WaitingBuilds::new(), Vec::new());
            for (number, (what, milli, memory, most_milli, most_memory)) in steps.into_iter().enumerate() {
                if what > 0 {
                    waiting.push(number, size(milli, memory));
                    plain.push((number, size(milli, memory)));
                    continue;
                }
                let mut too_large = |least: LeastSize| least.0 > most_milli || least.1 > most_memory;
                let first = waiting.first(0, &mut too_large);
                let expected = plain.iter().position(|(_, size)| !too_large((size.millicores, size.memory)));
                prop_assert_eq!(first.map(|(_, build, _)| build), expected.map(|at| plain[at].0));
                if let (Some((at, build, _)), Some(expected)) = (first, expected) {
                    plain.remove(expected);
                    // who is behind it is found from there
                    let next = plain.iter().skip(expected).find(|(_, size)| !too_large((size.millicores, size.memory)));
                    let behind = waiting.first(at + 1, &mut too_large).map(|(_, build, _)| build);
                    prop_assert_eq!(behind, next.map(|(number, _)| *number));
                    waiting.remove(at);
                    prop_assert!(waiting.first(at, &mut too_large).is_none_or(|(_, other, _)| other != build));
                }
                prop_assert_eq!(waiting.count, plain.len());
                prop_assert!(waiting.tree.len() <= 2 * MIN_BUILDS.max(4 * (waiting.builds.len())));
            }
        }
    }

    #[test]
    fn a_look_for_who_fits_visits_few_of_a_hundred_thousand() {
        let mut waiting = WaitingBuilds::new();
        for number in 0..100_000 {
            waiting.push(number, size(1000 + number as u64, 1 << 30));
        }
        let mut looks = 0;
        for free in [500, 1000, 50_000, 200_000] {
            let mut too_large = |least: LeastSize| {
                looks += 1;
                least.0 > free
            };
            if let Some((at, ..)) = waiting.first(0, &mut too_large) {
                waiting.remove(at);
            }
        }
        assert!(looks < 4 * 2 * 18, "{looks}");
    }
}
