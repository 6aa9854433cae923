//! Builds that wait for room, the oldest first. Over the builds stands a tree that knows of each half the least cores and the least memory,
//! and what is too much for its least is too much for all of it: where builds are alike, who fits next is found with a look at a few.
//!
//! The two least may be of two builds. Where builds that want many cores and little memory wait among others that want the opposite, a half
//! may look as if one of it fits and none does; in the worst case, with all of them mixed, each search then looks at every build that waits,
//! and a run takes time with the square of those.

use std::ops::Range;

use super::nodes::BuildSize;

/// Builds that the smallest tree has room for; a power of two.
const LEAST_BUILDS: usize = 16;

/// The least of some builds, each of its own: thousandths of a core, and bytes of memory.
type LeastSize = (u64, u64);

/// More than any node has: no build waits there.
const EMPTY_SLOT_SIZE: LeastSize = (u64::MAX, u64::MAX);

/// Builds in the order in which they began to wait. Takes memory for at most four times as many as wait.
#[derive(Debug)]
pub(super) struct WaitingBuilds {
    /// Number and size of a build; empty where one has gone.
    builds: Vec<Option<(usize, BuildSize)>>,
    /// Of as many builds as there is room for, a power of two. The halves of `at` are `2 * at` and `2 * at + 1`; all is at 1.
    tree: Vec<LeastSize>,
    /// How many wait.
    count: usize,
}

impl WaitingBuilds {
    /// A queue without builds.
    pub(super) fn new() -> Self {
        Self { builds: Vec::new(), tree: vec![EMPTY_SLOT_SIZE; 2 * LEAST_BUILDS], count: 0 }
    }

    /// One more, behind all others.
    pub(super) fn push(&mut self, build: usize, size: BuildSize) {
        if self.builds.len() == self.room() {
            self.close_ranks();
        }
        self.builds.push(Some((build, size)));
        self.count += 1;
        self.set(self.builds.len() - 1, (size.milli, size.memory));
    }

    /// The first build at position `from` or after it that is not too large: its position, number and size. A build that is too large stays
    /// so with more cores, more memory, or both.
    pub(super) fn first(
        &self,
        from: usize,
        too_large: &mut impl FnMut(LeastSize) -> bool,
    ) -> Option<(usize, usize, BuildSize)> {
        let at = self.find(1, 0..self.room(), from, too_large)?;
        self.builds.get(at).copied().flatten().map(|(build, size)| (at, build, size))
    }

    /// Takes one out. The others keep their places.
    pub(super) fn remove(&mut self, at: usize) {
        if let Some(build) = self.builds.get_mut(at)
            && build.take().is_some()
        {
            self.count -= 1;
            self.set(at, EMPTY_SLOT_SIZE);
        }
    }

    fn room(&self) -> usize {
        self.tree.len() / 2
    }

    /// The first build from position `from` on that is not too large, among those `below` a node of the tree.
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

    fn set(&mut self, at: usize, least: LeastSize) {
        let mut node = self.room() + at;
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

    /// Takes the gaps out, and makes room for as many more as wait.
    fn close_ranks(&mut self) {
        let waiting: Vec<(usize, BuildSize)> = self.builds.drain(..).flatten().collect();
        let room = (2 * waiting.len()).next_power_of_two().max(LEAST_BUILDS);
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
        BuildSize { milli, memory, limit: memory, needs: memory, is_long: false }
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
                let expected = plain.iter().position(|(_, size)| !too_large((size.milli, size.memory)));
                prop_assert_eq!(first.map(|(_, build, _)| build), expected.map(|at| plain[at].0));
                if let (Some((at, build, _)), Some(expected)) = (first, expected) {
                    plain.remove(expected);
                    // who is behind it is found from there
                    let next = plain.iter().skip(expected).find(|(_, size)| !too_large((size.milli, size.memory)));
                    let behind = waiting.first(at + 1, &mut too_large).map(|(_, build, _)| build);
                    prop_assert_eq!(behind, next.map(|(number, _)| *number));
                    waiting.remove(at);
                    prop_assert!(waiting.first(at, &mut too_large).is_none_or(|(_, other, _)| other != build));
                }
                prop_assert_eq!(waiting.count, plain.len());
                prop_assert!(waiting.tree.len() <= 2 * LEAST_BUILDS.max(4 * (waiting.builds.len())));
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
