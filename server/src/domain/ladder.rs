//! The rungs of the ladder of similarity, each with its newest attempts.
//!
//! A list goes when the last attempt of its rung goes. Then the last attempts of its keys go too: a list holds the newest of
//! its rung, and so it holds the last one of all; unless some were taken out of the middle.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{Brief, Fact, Key, Rung};

/// Newest attempts kept on one rung. More would only average over times long gone.
pub(super) const PER_RUNG: usize = 128;

/// Attempts by similarity.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    keys: HashMap<Arc<Key>, Standing, RandomState>,
    rungs: HashMap<RungKey, ListId, RandomState>,
    /// Attempts that are expected on rungs that have no list yet.
    expected: HashMap<RungKey, usize, RandomState>,
    /// Attempts of one rung each, oldest first.
    lists: Vec<VecDeque<Fact>>,
    /// Lists that no rung has now.
    free: Vec<ListId>,
    /// Some were taken out of the middle: a list may be empty before the last attempt of its rung goes.
    has_gaps: bool,
}

/// What attempts on one rung have in common.
type RungKey = (Rung, String);

/// A place among the lists.
type ListId = usize;

/// Where the attempts of one key stand. Kept, because to find their lists by their texts takes longer than all the rest.
#[derive(Debug)]
struct Standing {
    attempts: usize,
    lists: Vec<ListId>,
}

impl Ladder {
    /// Makes the lists for these attempts as long as they will be: lists that grow leave holes in the memory.
    pub(super) fn expect<'f>(&mut self, facts: impl Iterator<Item = &'f Fact>) {
        let mut attempts: HashMap<&Arc<Key>, usize, RandomState> = HashMap::default();
        for fact in facts {
            *attempts.entry(&fact.brief.key).or_default() += 1;
        }
        for (key, count) in attempts {
            for rung in rung_keys(key) {
                *self.expected.entry(rung).or_default() += count;
            }
        }
    }

    /// Nothing is expected any more.
    pub(super) fn expect_nothing(&mut self) {
        self.expected = HashMap::default();
    }

    /// Puts an attempt that is newer than all others on its rungs. It shares its key with those that have the same.
    pub(super) fn push(&mut self, mut fact: Fact) -> Arc<Brief> {
        let Self { keys, rungs, expected, lists, free, .. } = self;
        let entry = keys.entry(Arc::clone(&fact.brief.key));
        fact.share(entry.key());
        let standing = entry.or_insert_with_key(|key| {
            let list_of = |rung: RungKey| {
                let room = expected.remove(&rung).unwrap_or(0).min(PER_RUNG);
                *rungs.entry(rung).or_insert_with(|| take_list(lists, free, room))
            };
            Standing { attempts: 0, lists: rung_keys(key).map(list_of).collect() }
        });
        standing.attempts += 1;
        for id in &standing.lists {
            let Some(list) = lists.get_mut(*id) else { continue };
            if list.len() >= PER_RUNG {
                list.pop_front();
            }
            if list.len() == list.capacity() {
                // doubling would leave a third of all this memory empty
                list.reserve_exact((list.len() / 4).max(4).min(PER_RUNG - list.len()));
            }
            list.push_back(fact.clone());
        }
        fact.brief
    }

    /// Puts an attempt in the place of `earlier`, which has the same key.
    pub(super) fn replace(&mut self, earlier: &Arc<Brief>, fact: &Fact) {
        self.each_list(&earlier.key, |list| {
            let same = list.iter_mut().filter(|known| Arc::ptr_eq(&known.brief, earlier));
            same.for_each(|known| *known = fact.clone());
        });
    }

    /// Removes the attempt that is older than all others, and what only it needed.
    pub(super) fn remove_oldest(&mut self, oldest: &Arc<Brief>) {
        self.each_list(&oldest.key, |list| {
            if list.front().is_some_and(|first| Arc::ptr_eq(&first.brief, oldest)) {
                list.pop_front();
            }
        });
        self.leave(&oldest.key);
    }

    /// Removes an attempt, wherever it stands, and what only it needed.
    pub(super) fn remove(&mut self, brief: &Arc<Brief>) {
        self.has_gaps = true;
        self.each_list(&brief.key, |list| list.retain(|known| !Arc::ptr_eq(&known.brief, brief)));
        self.leave(&brief.key);
    }

    /// An attempt of this key is gone.
    fn leave(&mut self, key: &Arc<Key>) {
        let Some(standing) = self.keys.get_mut(key) else { return };
        standing.attempts = standing.attempts.saturating_sub(1);
        if standing.attempts > 0 {
            return;
        }
        self.keys.remove(key);
        for rung in rung_keys(key) {
            let Some(id) = self.rungs.get(&rung).copied() else { continue };
            if self.has_gaps && self.keys.values().any(|standing| standing.lists.contains(&id)) {
                continue;
            }
            if let Some(list) = self.lists.get_mut(id).filter(|list| list.is_empty()) {
                *list = VecDeque::new();
                self.rungs.remove(&rung);
                self.free.push(id);
            }
        }
    }

    /// Attempts that share the rung's part of `key`, newest first.
    pub(super) fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &Fact> {
        let list = self.rungs.get(&rung_key(rung, key)).and_then(|id| self.lists.get(*id));
        list.into_iter().flat_map(|list| list.iter().rev())
    }

    fn each_list(&mut self, key: &Arc<Key>, mut with: impl FnMut(&mut VecDeque<Fact>)) {
        let standing = self.keys.get(key);
        for id in standing.into_iter().flat_map(|standing| &standing.lists) {
            self.lists.get_mut(*id).into_iter().for_each(&mut with);
        }
    }
}

fn take_list(lists: &mut Vec<VecDeque<Fact>>, free: &mut Vec<ListId>, room: usize) -> ListId {
    let list = VecDeque::with_capacity(room);
    if let Some((id, place)) = free.pop().and_then(|id| Some((id, lists.get_mut(id)?))) {
        *place = list;
        return id;
    }
    lists.push(list);
    lists.len() - 1
}

fn rung_keys(key: &Key) -> impl Iterator<Item = RungKey> {
    // a key without a build system has no part in the rung of its build system
    let rungs = Rung::LADDER.into_iter();
    rungs
        .filter(|rung| *rung != Rung::BuildSystem || !key.build_system.is_empty())
        .map(|rung| rung_key(rung, key))
}

fn rung_key(rung: Rung, key: &Key) -> RungKey {
    if rung == Rung::BuildSystem {
        return (rung, key.build_system.clone());
    }
    // each rung has all that the wider ones have
    let parts = [
        &key.project,
        &key.package,
        &key.variants,
        &key.arch,
        &key.build_system,
        &key.compiler,
        &key.compiler_version,
        &key.version,
    ];
    let shared = match rung {
        Rung::Default | Rung::Fleet | Rung::BuildSystem => 0,
        Rung::Package => 2,
        Rung::NoCompiler => 5,
        Rung::NoVersion => 7,
        Rung::Exact => 8,
    };
    let shared: Vec<&str> = parts.into_iter().take(shared).map(String::as_str).collect();
    // no part holds a control character, so the separator cannot be forged
    (rung, shared.join("\u{1f}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    fn oldest_first(ladder: &Ladder) -> Vec<Arc<Brief>> {
        let key = Key { package: "none".into(), ..Key::default() };
        ladder.on_rung(Rung::Fleet, &key).rev().map(|fact| Arc::clone(&fact.brief)).collect()
    }

    #[test]
    fn nothing_is_left_of_a_ladder_whose_attempts_are_gone_and_lists_are_used_again() {
        let mut ladder = Ladder::default();
        for round in 0..5 {
            for n in 0..100 {
                ladder.push(test_summary(&n.to_string(), &format!("p{}", (n + round) % 7), "1", 10).into());
            }
            assert_eq!((ladder.keys.len(), ladder.rungs.len()), (7, 7 * 4 + 1));
            for brief in oldest_first(&ladder) {
                ladder.remove_oldest(&brief);
            }
            assert_eq!((ladder.keys.len(), ladder.rungs.len()), (0, 0));
            assert_eq!((ladder.lists.len(), ladder.free.len()), (29, 29));
        }
    }

    #[test]
    fn a_list_that_was_emptied_from_the_middle_stays_that_of_its_keys() {
        let mut ladder = Ladder::default();
        let push = |ladder: &mut Ladder, id: &str, package: &str| {
            ladder.push(test_summary(id, package, "1", 10).into())
        };
        let (old, other) = (push(&mut ladder, "old", "a"), push(&mut ladder, "other", "b"));
        let newer: Vec<Arc<Brief>> = (0..PER_RUNG).map(|n| push(&mut ladder, &n.to_string(), "c")).collect();
        // the list of all has only these, and is empty without them
        for brief in &newer {
            ladder.remove(brief);
        }
        assert!(oldest_first(&ladder).is_empty());
        ladder.remove_oldest(&old);
        let last = push(&mut ladder, "last", "b");
        push(&mut ladder, "x", "d");
        assert_eq!(oldest_first(&ladder).len(), 2);
        let of_b = |ladder: &Ladder| ladder.on_rung(Rung::Package, &last.key).count();
        assert_eq!(of_b(&ladder), 2);
        ladder.remove(&last);
        assert_eq!(of_b(&ladder), 1);
        ladder.remove_oldest(&other);
        let left = oldest_first(&ladder);
        ladder.remove(&left[0]);
        assert_eq!((ladder.keys.len(), ladder.rungs.len()), (0, 0));
        assert_eq!(ladder.lists.len(), ladder.free.len());
    }

    #[test]
    fn a_list_that_was_expected_has_its_length_from_the_start() {
        let mut ladder = Ladder::default();
        let fact = |n: usize| Fact::from(test_summary(&n.to_string(), &format!("p{}", n % 10), "1", 10));
        let facts: Vec<Fact> = (0..500).map(fact).collect();
        ladder.expect(facts.iter());
        ladder.push(fact(0));
        let room: Vec<usize> = ladder.lists.iter().map(VecDeque::capacity).collect();
        assert_eq!(room, [50, 50, 50, 50, PER_RUNG]);
        for fact in facts {
            ladder.push(fact);
        }
        assert!(ladder.expected.is_empty(), "{:?}", ladder.expected);
    }

    #[test]
    fn a_list_holds_the_newest_and_takes_no_more_memory_than_it_may_need() {
        let mut ladder = Ladder::default();
        for n in 0..1000 {
            ladder.push(test_summary(&n.to_string(), "zlib", "1", 10).into());
        }
        let newest: Vec<String> =
            oldest_first(&ladder).iter().map(|brief| brief.attempt.to_string()).collect();
        assert_eq!(newest, (1000 - PER_RUNG..1000).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(ladder.lists.iter().all(|list| list.capacity() == PER_RUNG));
    }
}
