//! The rungs of the ladder of similarity, each with its newest attempts.
//!
//! A list goes when the last attempt of its rung goes. Then the last attempts of its keys go too: a list holds the newest of
//! its rung, and so it holds the last one of all; unless some were taken out of the middle.
//!
//! Rungs with the same attempts share a list until a key comes that stands on some of them alone.
//!
//! | module | what it does |
//! |---|---|
//! | `loader` | adds many attempts at once, at a start |
//! | `rung_key` | rungs as numbers |
//! | `lists` | the attempts of rungs |

mod lists;
mod loader;
mod rung_key;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
pub(super) use lists::PER_RUNG;
use lists::{ListId, Lists};
pub(super) use loader::LadderLoader;
use rung_key::{RungHasher, RungKey};

use super::{AttemptBrief, Key, Rung, RungObservation, job_of_part, weight};

/// Attempts by similarity.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    keys: HashMap<Arc<Key>, KeyLists, RandomState>,
    rungs: Rungs,
    /// Bytes of all keys.
    key_bytes: usize,
}

/// All rungs and their lists.
#[derive(Debug, Default)]
struct Rungs {
    hasher: RungHasher,
    on: HashMap<RungKey, OnRung, RandomState>,
    /// Attempts that are expected on rungs that have no list yet.
    expected: HashMap<RungKey, usize, RandomState>,
    lists: Lists,
    /// How often rungs that had one list got two: what was known of lists before does not hold any more.
    splits: u64,
}

/// What is known of one rung.
#[derive(Debug, Clone, Copy)]
struct OnRung {
    list: ListId,
    /// Keys with attempts on it. With the last of them it goes.
    keys: usize,
}

/// Where the attempts of one key stand. Kept, because to find their lists by their texts takes longer than all the rest.
#[derive(Debug)]
struct KeyLists {
    attempts: usize,
    /// Each once.
    lists: Vec<ListId>,
    /// See [`Rungs::splits`].
    splits: u64,
}

/// Rungs of a key that is no part of a parallel job.
const USUAL_RUNGS: usize = Rung::LADDER.len() - 1;

/// What a key takes beside its texts: places in tables, here and in the statistics, which number what was built.
const KEY_BYTES: usize = weight::in_table(size_of::<(Arc<Key>, KeyLists)>())
    + weight::piece(USUAL_RUNGS * size_of::<ListId>())
    + (USUAL_RUNGS - 2) * weight::in_table(size_of::<(RungKey, OnRung)>())
    + 3 * weight::in_table(size_of::<(Arc<Key>, u64)>());

impl Ladder {
    /// Puts an attempt that is newer than all others on its rungs. It shares its key with those that have the same.
    pub(super) fn push(&mut self, mut observation: RungObservation) -> Arc<AttemptBrief> {
        let Self { keys, rungs, key_bytes } = self;
        let entry = keys.entry(Arc::clone(&observation.brief.key));
        observation.share(entry.key());
        let standing = entry.or_insert_with_key(|key| {
            *key_bytes += bytes_of(key);
            rungs.stand(key)
        });
        standing.attempts += 1;
        standing.renew(rungs, &observation.brief.key);
        for id in &standing.lists {
            rungs.lists.push(*id, observation.clone());
        }
        observation.brief
    }

    /// Puts an attempt in the place of `earlier`, which has the same key.
    pub(super) fn replace(&mut self, earlier: &Arc<AttemptBrief>, observation: &RungObservation) {
        let Some(standing) = self.keys.get_mut(&earlier.key) else { return };
        standing.renew(&self.rungs, &earlier.key);
        for id in &standing.lists {
            self.rungs.lists.replace(*id, earlier, observation);
        }
    }

    /// Removes the attempt that is older than all others, and what only it needed.
    pub(super) fn remove_oldest(&mut self, oldest: &Arc<AttemptBrief>) {
        let Some(standing) = self.keys.get_mut(&oldest.key) else { return };
        standing.renew(&self.rungs, &oldest.key);
        for id in &standing.lists {
            self.rungs.lists.pop(*id, oldest);
        }
        self.leave(&oldest.key);
    }

    /// Removes an attempt, wherever it stands, and what only it needed.
    pub(super) fn remove(&mut self, brief: &Arc<AttemptBrief>) {
        let Some(standing) = self.keys.get_mut(&brief.key) else { return };
        standing.renew(&self.rungs, &brief.key);
        for id in &standing.lists {
            self.rungs.lists.remove(*id, brief);
        }
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
        self.key_bytes = self.key_bytes.saturating_sub(bytes_of(key));
        self.rungs.let_go(key);
    }

    /// Attempts that share the rung's part of `key`, newest first.
    pub(super) fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &RungObservation> {
        let Rungs { hasher, on, lists, .. } = &self.rungs;
        let list = on.get(&hasher.mark(rung, key)).and_then(|rung| lists.get(rung.list));
        list.into_iter().flat_map(|list| list.iter().rev())
    }

    /// Bytes of all of it, without the attempts themselves.
    pub(super) fn bytes(&self) -> usize {
        self.key_bytes + self.rungs.lists.bytes()
    }
}

impl KeyLists {
    fn renew(&mut self, rungs: &Rungs, key: &Key) {
        if self.splits != rungs.splits {
            self.lists = rungs.lists_of(key);
            self.splits = rungs.splits;
        }
    }
}

impl Rungs {
    /// Gives a new key its place.
    fn stand(&mut self, key: &Key) -> KeyLists {
        self.place(key);
        KeyLists { attempts: 0, lists: self.lists_of(key), splits: self.splits }
    }

    /// Gives each rung of a new key a list, with no attempts of rungs that are not its own.
    fn place(&mut self, key: &Key) {
        let all: Vec<RungKey> = self.hasher.of(key).collect();
        let (known, new): (Vec<RungKey>, Vec<RungKey>) =
            all.into_iter().partition(|mark| self.on.contains_key(mark));
        let lists = once_each(known.iter().filter_map(|mark| self.on.get(mark)).map(|rung| rung.list));
        for list in lists {
            self.part(list, &known);
        }
        for mark in &known {
            self.on.entry(*mark).and_modify(|rung| rung.keys += 1);
        }
        // rungs on which equally many attempts are expected will have the same ones
        let expected: Vec<usize> = new.iter().map(|mark| self.expected.remove(mark).unwrap_or(0)).collect();
        for room in once_each(expected.iter().copied()) {
            let alike = || new.iter().zip(&expected).filter(|(_, count)| **count == room);
            let list = self.lists.take(alike().count(), room);
            self.on.extend(alike().map(|(mark, _)| (*mark, OnRung { list, keys: 1 })));
        }
    }

    /// Gives those of these rungs that have a list together with others a list of their own.
    fn part(&mut self, list: ListId, rungs: &[RungKey]) {
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

    /// The lists of a key that has its place, each once.
    fn lists_of(&self, key: &Key) -> Vec<ListId> {
        once_each(self.hasher.of(key).filter_map(|mark| self.on.get(&mark)).map(|rung| rung.list))
    }

    /// Lets go of the rungs of a key that has no attempt any more, as far as no other key stands on them.
    fn let_go(&mut self, key: &Key) {
        let Self { hasher, on, lists, .. } = self;
        for mark in hasher.of(key) {
            let Some(rung) = on.get_mut(&mark) else { continue };
            rung.keys = rung.keys.saturating_sub(1);
            if rung.keys == 0 {
                lists.release(rung.list);
                on.remove(&mark);
            }
        }
    }
}

/// Some few things, each once.
fn once_each<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::with_capacity(USUAL_RUNGS);
    all.for_each(|one| {
        if !found.contains(&one) {
            found.push(one);
        }
    });
    found
}

fn bytes_of(key: &Key) -> usize {
    let siblings = weight::in_table(size_of::<(RungKey, OnRung)>()) + size_of::<ListId>();
    key.allocated() + KEY_BYTES + if job_of_part(&key.package).is_some() { siblings } else { 0 }
}
