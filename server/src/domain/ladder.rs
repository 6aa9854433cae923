//! The rungs of the ladder of similarity, each with its newest attempts.
//!
//! A list goes when the last attempt of its rung goes. Then the last attempts of its keys go too: a list holds the newest of
//! its rung, and so it holds the last one of all.
//!
//! Rungs with the same attempts share a list until a key comes that stands on some of them alone.
//!
//! | file | what it does |
//! |---|---|
//! | `marks` | rungs as numbers |
//! | `lists` | the attempts of rungs |

mod lists;
mod marks;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use foldhash::fast::RandomState;
pub(super) use lists::PER_RUNG;
use lists::{ListId, Lists};
use marks::{Mark, Marks};

use super::{Brief, Fact, Key, Rung, weight};

/// Attempts by similarity.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    keys: HashMap<Arc<Key>, Standing, RandomState>,
    rungs: Rungs,
    /// Bytes of all keys.
    key_bytes: usize,
}

/// All rungs and their lists.
#[derive(Debug, Default)]
struct Rungs {
    marks: Marks,
    lists_of: HashMap<Mark, ListId, RandomState>,
    /// Attempts that are expected on rungs that have no list yet.
    expected: HashMap<Mark, usize, RandomState>,
    lists: Lists,
    /// How often rungs that had one list got two: what was known of lists before does not hold any more.
    splits: u64,
}

/// Where the attempts of one key stand. Kept, because to find their lists by their texts takes longer than all the rest.
#[derive(Debug)]
struct Standing {
    attempts: usize,
    /// Each once.
    lists: Vec<ListId>,
    /// See [`Rungs::splits`].
    splits: u64,
}

/// What a key takes beside its texts: places in tables, here and in the statistics, which number what was built.
const KEY_BYTES: usize = weight::in_table(size_of::<(Arc<Key>, Standing)>())
    + weight::piece(Rung::LADDER.len() * size_of::<ListId>())
    + (Rung::LADDER.len() - 2) * weight::in_table(size_of::<(Mark, ListId)>())
    + 3 * weight::in_table(size_of::<(Arc<Key>, u64)>());

impl Ladder {
    /// Makes the lists for these attempts as long as they will be: lists that grow leave holes in the memory.
    pub(super) fn expect<'f>(&mut self, facts: impl Iterator<Item = &'f Fact>) {
        let mut attempts: HashMap<&Arc<Key>, usize, RandomState> = HashMap::default();
        for fact in facts {
            *attempts.entry(&fact.brief.key).or_default() += 1;
        }
        let Rungs { marks, expected, .. } = &mut self.rungs;
        for (key, count) in attempts {
            for mark in marks.of(key) {
                *expected.entry(mark).or_default() += count;
            }
        }
    }

    /// Nothing is expected any more.
    pub(super) fn expect_nothing(&mut self) {
        self.rungs.expected = HashMap::default();
    }

    /// Puts an attempt that is newer than all others on its rungs. It shares its key with those that have the same.
    pub(super) fn push(&mut self, mut fact: Fact) -> Arc<Brief> {
        let Self { keys, rungs, key_bytes } = self;
        let entry = keys.entry(Arc::clone(&fact.brief.key));
        fact.share(entry.key());
        let standing = entry.or_insert_with_key(|key| {
            *key_bytes += bytes_of(key);
            rungs.place(key);
            Standing { attempts: 0, lists: rungs.lists_of(key), splits: rungs.splits }
        });
        standing.attempts += 1;
        standing.renew(rungs, &fact.brief.key);
        for id in &standing.lists {
            rungs.lists.push(*id, fact.clone());
        }
        fact.brief
    }

    /// Puts an attempt in the place of `earlier`, which has the same key.
    pub(super) fn replace(&mut self, earlier: &Arc<Brief>, fact: &Fact) {
        let Some(standing) = self.keys.get_mut(&earlier.key) else { return };
        standing.renew(&self.rungs, &earlier.key);
        for id in &standing.lists {
            self.rungs.lists.replace(*id, earlier, fact);
        }
    }

    /// Removes the attempt that is older than all others, and what only it needed.
    pub(super) fn remove_oldest(&mut self, oldest: &Arc<Brief>) {
        let Some(standing) = self.keys.get_mut(&oldest.key) else { return };
        standing.renew(&self.rungs, &oldest.key);
        for id in &standing.lists {
            self.rungs.lists.pop(*id, oldest);
        }
        standing.attempts = standing.attempts.saturating_sub(1);
        if standing.attempts > 0 {
            return;
        }
        self.keys.remove(&oldest.key);
        self.key_bytes = self.key_bytes.saturating_sub(bytes_of(&oldest.key));
        self.rungs.let_go(&oldest.key);
    }

    /// Attempts that share the rung's part of `key`, newest first.
    pub(super) fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &Fact> {
        let Rungs { marks, lists_of, lists, .. } = &self.rungs;
        let list = lists_of.get(&marks.mark(rung, key)).and_then(|id| lists.get(*id));
        list.into_iter().flat_map(|list| list.iter().rev())
    }

    /// Bytes of all of it, without the attempts themselves.
    pub(super) fn bytes(&self) -> usize {
        self.key_bytes + self.rungs.lists.bytes()
    }
}

impl Standing {
    fn renew(&mut self, rungs: &Rungs, key: &Key) {
        if self.splits != rungs.splits {
            self.lists = rungs.lists_of(key);
            self.splits = rungs.splits;
        }
    }
}

impl Rungs {
    /// Gives each rung of a new key a list, with no attempts of rungs that are not its own.
    fn place(&mut self, key: &Key) {
        let all: Vec<Mark> = self.marks.of(key).collect();
        let (known, new): (Vec<Mark>, Vec<Mark>) =
            all.into_iter().partition(|mark| self.lists_of.contains_key(mark));
        let ids: Vec<Option<ListId>> = known.iter().map(|mark| self.lists_of.get(mark).copied()).collect();
        for id in once_each(ids.iter().flatten().copied()) {
            let ours = ids.iter().filter(|known| **known == Some(id)).count();
            if self.lists.rungs(id) > ours {
                let own = self.lists.split(id, ours);
                let marks = known.iter().zip(&ids).filter(|(_, known)| **known == Some(id));
                self.lists_of.extend(marks.map(|(mark, _)| (*mark, own)));
                self.splits += 1;
            }
        }
        // rungs on which equally many attempts are expected will have the same ones
        let expected: Vec<usize> = new.iter().map(|mark| self.expected.remove(mark).unwrap_or(0)).collect();
        for room in once_each(expected.iter().copied()) {
            let marks: Vec<Mark> = new
                .iter()
                .zip(&expected)
                .filter(|(_, count)| **count == room)
                .map(|(mark, _)| *mark)
                .collect();
            let id = self.lists.take(marks.len(), room);
            self.lists_of.extend(marks.into_iter().map(|mark| (mark, id)));
        }
    }

    /// The lists of a key that has its place, each once.
    fn lists_of(&self, key: &Key) -> Vec<ListId> {
        once_each(self.marks.of(key).filter_map(|mark| self.lists_of.get(&mark).copied()))
    }

    /// Lets go of the rungs of a key that has no attempt any more, as far as no other key stands on them.
    fn let_go(&mut self, key: &Key) {
        let Self { marks, lists_of, lists, .. } = self;
        for mark in marks.of(key) {
            let Some(id) = lists_of.get(&mark).copied() else { continue };
            if lists.get(id).is_some_and(VecDeque::is_empty) {
                lists_of.remove(&mark);
                lists.release(id);
            }
        }
    }
}

/// Some few things, each once.
fn once_each<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::with_capacity(Rung::LADDER.len());
    all.for_each(|one| {
        if !found.contains(&one) {
            found.push(one);
        }
    });
    found
}

fn bytes_of(key: &Key) -> usize {
    key.allocated() + KEY_BYTES
}
