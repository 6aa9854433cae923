//! A sorted set of pairs that finds how many pairs come before a given one, and which pair is the n-th.
//!
//! It is stored as sorted lists of limited length. Each operation examines one list and the lengths of the others, which are some hundred
//! numbers for a hundred thousand pairs. An order-statistics tree would examine less, but need four times the code.

/// A pair of numbers in a set.
pub(super) type QueueRank = (u64, u64);

/// Longest list. It is about twice the square root of the number of pairs on a busy server, where both costs are small.
const MAX_LIST_LENGTH: usize = 512;

/// A sorted set of pairs.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    /// Sorted lists: none is empty, and the last pair of each is below the first of the next.
    runs: Vec<Vec<QueueRank>>,
}

impl Ranks {
    /// Number of pairs.
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    pub(super) fn insert(&mut self, rank: QueueRank) {
        let at = self.run_of(rank);
        let Some(run) = self.runs.get_mut(at) else {
            self.runs.push(vec![rank]);
            return;
        };
        if let Err(place) = run.binary_search(&rank) {
            run.insert(place, rank);
        }
        if run.len() > MAX_LIST_LENGTH {
            let upper = run.split_off(MAX_LIST_LENGTH / 2);
            self.runs.insert(at + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, rank: QueueRank) {
        let at = self.run_of(rank);
        let Some(run) = self.runs.get_mut(at) else { return };
        if let Ok(place) = run.binary_search(&rank) {
            run.remove(place);
        }
        let left = run.len();
        let next = self.runs.get(at + 1).map_or(MAX_LIST_LENGTH, Vec::len);
        if left == 0 {
            self.runs.remove(at);
        } else if left + next <= MAX_LIST_LENGTH / 2 {
            // short neighbours are joined, because otherwise many lists of one pair would remain
            let next = self.runs.remove(at + 1);
            if let Some(run) = self.runs.get_mut(at) {
                run.extend(next);
            }
        }
    }

    /// Number of pairs that come before `rank`, which need not be in the set.
    pub(super) fn count_before(&self, rank: QueueRank) -> usize {
        let at = self.run_of(rank);
        let runs: usize = self.runs.iter().take(at).map(Vec::len).sum();
        runs + self.runs.get(at).map_or(0, |run| run.partition_point(|other| *other < rank))
    }

    /// The pair with `n` others before it.
    pub(super) fn nth(&self, mut n: usize) -> Option<QueueRank> {
        for run in &self.runs {
            match run.get(n) {
                Some(rank) => return Some(*rank),
                None => n -= run.len(),
            }
        }
        None
    }

    /// Index of the list that contains `rank`, or that would contain it.
    fn run_of(&self, rank: QueueRank) -> usize {
        let begun = self.runs.partition_point(|run| run.first().is_some_and(|first| *first <= rank));
        begun.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_match_a_sorted_set(
            steps in prop::collection::vec((any::<bool>(), 0..6_u64, 0..400_u64), 1..3000)
        ) {
            let (mut ranks, mut plain) = (Ranks::default(), BTreeSet::new());
            for (adds, high, low) in steps {
                let rank = (high, low);
                if adds {
                    ranks.insert(rank);
                    plain.insert(rank);
                } else {
                    ranks.remove(rank);
                    plain.remove(&rank);
                }
                prop_assert_eq!(ranks.count_before(rank), plain.range(..rank).count());
            }
            prop_assert_eq!(ranks.len(), plain.len());
            for (n, rank) in plain.iter().enumerate() {
                prop_assert_eq!(ranks.nth(n), Some(*rank));
            }
            prop_assert_eq!(ranks.nth(plain.len()), None);
            prop_assert!(ranks.runs.iter().all(|run| !run.is_empty() && run.len() <= MAX_LIST_LENGTH));
        }
    }
}
