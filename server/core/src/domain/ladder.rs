//! The rungs of the ladder of similarity, each with a list of its newest attempts.
//!
//! A list is freed when the last attempt of its rung is removed. A list keeps the newest attempts, so when it becomes empty no attempts of
//! its keys are left, unless some were removed from the middle.
//!
//! Rungs with the same attempts share one list, until a key is added that belongs to only some of them.
//!
//! | module | content |
//! |---|---|
//! | `loader` | bulk load at a start |
//! | `rung_key` | rungs as hashes |
//! | `lists` | the lists of attempts |

mod lists;
mod loader;
mod rung_key;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
pub(super) use lists::{ATTEMPTS_PER_RUNG, place_of};
use lists::{ListId, RungLists, bytes_of_lists};
pub(super) use loader::LadderLoader;
pub(super) use rung_key::are_same_but_arch;
use rung_key::{RungHasher, RungKey};

use super::{AttemptBrief, Key, Rung, RungObservation, job_of_part, weight};

/// Attempts by similarity: every rung with the list of its attempts.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    keys: HashMap<Arc<Key>, KeyLists, RandomState>,
    rungs: Rungs,
    /// Memory that all keys and their lists take, in bytes.
    bytes: usize,
}

/// All rungs and their lists.
#[derive(Debug, Default)]
struct Rungs {
    hasher: RungHasher,
    on: HashMap<RungKey, OnRung, RandomState>,
    /// Number of attempts that a bulk load will add to each rung that has no list yet.
    expected: HashMap<RungKey, usize, RandomState>,
    lists: RungLists,
    /// How often a shared list was split. Saved list ids are out of date once this number has changed.
    splits: u64,
}

/// State of one rung.
#[derive(Debug, Clone, Copy)]
struct OnRung {
    list: ListId,
    /// Number of keys with attempts on the rung. The rung is removed with the last of them.
    keys: usize,
}

/// The lists that the attempts of one key are in. The ids are saved, because finding the lists by the key's texts takes longer than
/// everything else.
#[derive(Debug)]
struct KeyLists {
    attempts: usize,
    /// Ids of the lists, without repetitions.
    lists: Vec<ListId>,
    /// Value of [`Rungs::splits`] when `lists` was filled: once they differ, `lists` is out of date.
    splits: u64,
}

/// Number of rungs of a key that is not part of a parallel job.
const USUAL_RUNGS: usize = Rung::LADDER.len() - 1;

/// Bytes that a key takes besides its texts: its entries in the tables here and in the statistics.
const KEY_BYTES: usize = weight::table_entry_bytes(size_of::<(Arc<Key>, KeyLists)>())
    + weight::allocation_bytes(USUAL_RUNGS * size_of::<ListId>())
    + (USUAL_RUNGS - 2) * weight::table_entry_bytes(size_of::<(RungKey, OnRung)>())
    + 3 * weight::table_entry_bytes(size_of::<(Arc<Key>, u64)>());

impl Ladder {
    /// Adds an attempt to its rungs. It then shares its key with attempts of an equal key.
    pub(super) fn push(&mut self, mut observation: RungObservation) -> Arc<AttemptBrief> {
        let Self { keys, rungs, bytes } = self;
        let entry = keys.entry(Arc::clone(&observation.brief.key));
        observation.share(entry.key());
        let standing = entry.or_insert_with_key(|key| {
            *bytes += bytes_of(key);
            rungs.register(key)
        });
        *bytes += standing.count_one_more();
        standing.refresh_lists(rungs, &observation.brief.key);
        for id in &standing.lists {
            rungs.lists.push(*id, observation.clone());
        }
        observation.brief
    }

    /// Replaces the attempt `earlier`, which has the same key.
    pub(super) fn replace(&mut self, earlier: &Arc<AttemptBrief>, observation: &RungObservation) {
        let Some(standing) = self.keys.get_mut(&earlier.key) else { return };
        standing.refresh_lists(&self.rungs, &earlier.key);
        for id in &standing.lists {
            self.rungs.lists.replace(*id, earlier, observation);
        }
    }

    /// Removes the oldest attempt, and the rungs and lists that only it used.
    pub(super) fn remove_oldest(&mut self, oldest: &Arc<AttemptBrief>) {
        let Some(standing) = self.keys.get_mut(&oldest.key) else { return };
        standing.refresh_lists(&self.rungs, &oldest.key);
        for id in &standing.lists {
            self.rungs.lists.pop(*id, oldest);
        }
        self.release_key(&oldest.key);
    }

    /// Removes an attempt from any position, and the rungs and lists that only it used.
    pub(super) fn remove(&mut self, brief: &Arc<AttemptBrief>) {
        let Some(standing) = self.keys.get_mut(&brief.key) else { return };
        standing.refresh_lists(&self.rungs, &brief.key);
        for id in &standing.lists {
            self.rungs.lists.remove(*id, brief);
        }
        self.release_key(&brief.key);
    }

    /// Notes that one attempt of this key was removed, and removes the key with its last attempt.
    fn release_key(&mut self, key: &Arc<Key>) {
        let Some(standing) = self.keys.get_mut(key) else { return };
        self.bytes = self.bytes.saturating_sub(standing.count_one_fewer());
        if standing.attempts > 0 {
            return;
        }
        self.keys.remove(key);
        self.bytes = self.bytes.saturating_sub(bytes_of(key));
        self.rungs.release_rungs(key);
    }

    /// Attempts with the same values as `key` in the fields of the rung, newest first.
    pub(super) fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &RungObservation> {
        let Rungs { hasher, on, lists, .. } = &self.rungs;
        let list = on.get(&hasher.rung_key(rung, key)).and_then(|rung| lists.get(rung.list));
        list.into_iter().flat_map(|list| list.iter().rev())
    }

    /// Bytes that the whole ladder takes, without the attempts themselves. They depend on the attempts alone, and a further attempt never
    /// makes them fewer.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl KeyLists {
    /// Counts a further attempt; returns by how many bytes the lists grow.
    fn count_one_more(&mut self) -> usize {
        let before = bytes_of_lists(self.attempts);
        self.attempts += 1;
        bytes_of_lists(self.attempts) - before
    }

    /// Counts an attempt fewer; returns by how many bytes the lists shrink.
    fn count_one_fewer(&mut self) -> usize {
        let before = bytes_of_lists(self.attempts);
        self.attempts = self.attempts.saturating_sub(1);
        before - bytes_of_lists(self.attempts)
    }

    fn refresh_lists(&mut self, rungs: &Rungs, key: &Key) {
        if self.splits != rungs.splits {
            self.lists = rungs.lists_of(key);
            self.splits = rungs.splits;
        }
    }
}

impl Rungs {
    /// Adds a new key to its rungs.
    fn register(&mut self, key: &Key) -> KeyLists {
        self.place(key);
        KeyLists { attempts: 0, lists: self.lists_of(key), splits: self.splits }
    }

    /// Gives each rung of a new key a list that holds only attempts of that rung.
    fn place(&mut self, key: &Key) {
        let all: Vec<RungKey> = self.hasher.rung_keys(key).collect();
        let (known, new): (Vec<RungKey>, Vec<RungKey>) =
            all.into_iter().partition(|mark| self.on.contains_key(mark));
        let lists = deduplicated(known.iter().filter_map(|mark| self.on.get(mark)).map(|rung| rung.list));
        for list in lists {
            self.separate(list, &known);
        }
        for mark in &known {
            self.on.entry(*mark).and_modify(|rung| rung.keys += 1);
        }
        // rungs for which the load expects equally many attempts will hold the same attempts, so they can share a list
        let expected: Vec<usize> = new.iter().map(|mark| self.expected.remove(mark).unwrap_or(0)).collect();
        for room in deduplicated(expected.iter().copied()) {
            let alike = || new.iter().zip(&expected).filter(|(_, count)| **count == room);
            let list = self.lists.allocate(alike().count(), room);
            self.on.extend(alike().map(|(mark, _)| (*mark, OnRung { list, keys: 1 })));
        }
    }

    /// Moves these rungs, which share a list with others, to a list that only they share.
    fn separate(&mut self, list: ListId, rungs: &[RungKey]) {
        let have_it = |mark: &&RungKey| self.on.get(mark).is_some_and(|rung| rung.list == list);
        let ours: Vec<RungKey> = rungs.iter().filter(have_it).copied().collect();
        if self.lists.rungs(list) > ours.len() {
            let own = self.lists.split(list, ours.len());
            for mark in ours {
                self.on.entry(mark).and_modify(|rung| rung.list = own);
            }
            self.splits += 1;
        }
    }

    /// The lists of a registered key, without repetitions.
    fn lists_of(&self, key: &Key) -> Vec<ListId> {
        deduplicated(self.hasher.rung_keys(key).filter_map(|mark| self.on.get(&mark)).map(|rung| rung.list))
    }

    /// Removes the rungs of a key that has no attempts left, unless another key uses them.
    fn release_rungs(&mut self, key: &Key) {
        let Self { hasher, on, lists, .. } = self;
        for mark in hasher.rung_keys(key) {
            let Some(rung) = on.get_mut(&mark) else { continue };
            rung.keys = rung.keys.saturating_sub(1);
            if rung.keys == 0 {
                lists.release(rung.list);
                on.remove(&mark);
            }
        }
    }
}

/// The items without repetitions, in quadratic time: only for few items.
fn deduplicated<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::with_capacity(USUAL_RUNGS);
    all.for_each(|one| {
        if !found.contains(&one) {
            found.push(one);
        }
    });
    found
}

fn bytes_of(key: &Key) -> usize {
    let siblings = weight::table_entry_bytes(size_of::<(RungKey, OnRung)>()) + size_of::<ListId>();
    key.allocated_bytes() + KEY_BYTES + if job_of_part(&key.package).is_some() { siblings } else { 0 }
}
