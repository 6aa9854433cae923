//! Many attempts at once: what a start reads.
//!
//! From the newest to the oldest: a list that is full stays as it is, where it would take in and let go each of a million attempts in
//! the other order. And each key is found by where it lies in memory: to hash its texts again for each attempt takes longer than all
//! the rest.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use super::{AttemptBrief, Key, KeyLists, Ladder, RungObservation, bytes_of};

/// Where the keys of a ladder stand that is being filled.
#[derive(Debug, Default)]
pub(in super::super) struct LadderLoader {
    /// There was no room for an attempt: for older ones there is none either.
    pub(in super::super) full: bool,
    all: Vec<(Arc<Key>, KeyLists)>,
    /// Places in `all`.
    by_text: HashMap<Arc<Key>, usize, RandomState>,
    /// The same; holds each key, so that no other one comes to lie where it lay.
    by_address: HashMap<*const Key, (Arc<Key>, usize), RandomState>,
}

impl LadderLoader {
    /// Where the key stands that equals this one.
    fn find(&mut self, key: &Arc<Key>, stand: impl FnOnce(&Key) -> KeyLists) -> usize {
        let address = Arc::as_ptr(key);
        if let Some((_, at)) = self.by_address.get(&address) {
            return *at;
        }
        let at = *self.by_text.entry(Arc::clone(key)).or_insert_with_key(|key| {
            self.all.push((Arc::clone(key), stand(key)));
            self.all.len() - 1
        });
        self.by_address.insert(address, (Arc::clone(key), at));
        at
    }
}

impl Ladder {
    /// Begins to fill an empty ladder with some of these attempts. The lists become as long as they will be: lists that grow leave holes
    /// in the memory.
    pub(in super::super) fn fill<'f>(
        &mut self,
        observations: impl Iterator<Item = &'f RungObservation>,
    ) -> LadderLoader {
        let mut attempts: HashMap<*const Key, (&Arc<Key>, usize), RandomState> = HashMap::default();
        for RungObservation { brief, .. } in observations {
            attempts.entry(Arc::as_ptr(&brief.key)).or_insert((&brief.key, 0)).1 += 1;
        }
        let expected = &mut self.rungs.expected;
        for (key, count) in attempts.into_values() {
            for mark in self.rungs.hasher.of(key) {
                *expected.entry(mark).or_default() += count;
            }
        }
        LadderLoader::default()
    }

    /// Puts an attempt that is older than all others on its rungs. It shares its key with those that have the same.
    pub(in super::super) fn push_older(
        &mut self,
        bulk: &mut LadderLoader,
        mut observation: RungObservation,
    ) -> Arc<AttemptBrief> {
        let Self { rungs, key_bytes, .. } = self;
        let at = bulk.find(&observation.brief.key, |key| {
            *key_bytes += bytes_of(key);
            rungs.stand(key)
        });
        if let Some((key, standing)) = bulk.all.get_mut(at) {
            observation.share(key);
            standing.attempts += 1;
            standing.renew(rungs, key);
            for id in &standing.lists {
                rungs.lists.push_older(*id, &observation);
            }
        }
        observation.brief
    }

    /// All are there.
    pub(in super::super) fn filled(&mut self, bulk: LadderLoader) {
        self.keys.extend(bulk.all);
        self.rungs.expected = HashMap::default();
    }
}
