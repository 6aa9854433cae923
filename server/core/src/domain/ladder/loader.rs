//! Bulk load of attempts when the server starts.
//!
//! Attempts are added from the newest to the oldest, so nothing more is done once a list is full; in the other order each of a million
//! attempts would be added and evicted again. Keys are found by their address in memory, because hashing their texts for each attempt takes
//! longer than the rest of the load.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use super::{AttemptBrief, Key, KeyLists, Ladder, RungObservation, bytes_of};

/// The keys of a ladder while it is loaded.
#[derive(Debug, Default)]
pub(in super::super) struct LadderLoader {
    all: Vec<(Arc<Key>, KeyLists)>,
    /// Index of each key in `all`, found by the key's texts.
    by_text: HashMap<Arc<Key>, usize, RandomState>,
    /// Index of each key in `all`, found by the key's address. The map holds each key, so that its address is not reused.
    by_address: HashMap<*const Key, (Arc<Key>, usize), RandomState>,
}

impl LadderLoader {
    /// Index of the key that equals this one; a new key is added with `register`.
    fn find(&mut self, key: &Arc<Key>, register: impl FnOnce(&Key) -> KeyLists) -> usize {
        let address = Arc::as_ptr(key);
        if let Some((_, at)) = self.by_address.get(&address) {
            return *at;
        }
        let at = *self.by_text.entry(Arc::clone(key)).or_insert_with_key(|key| {
            self.all.push((Arc::clone(key), register(key)));
            self.all.len() - 1
        });
        self.by_address.insert(address, (Arc::clone(key), at));
        at
    }
}

impl Ladder {
    /// Starts loading some of these attempts into an empty ladder. The lists are allocated at their final length: growing them would
    /// fragment the memory.
    pub(in super::super) fn begin_load<'f>(
        &mut self,
        observations: impl Iterator<Item = &'f RungObservation>,
    ) -> LadderLoader {
        let mut attempts: HashMap<*const Key, (&Arc<Key>, usize), RandomState> = HashMap::default();
        for RungObservation { brief, .. } in observations {
            attempts.entry(Arc::as_ptr(&brief.key)).or_insert((&brief.key, 0)).1 += 1;
        }
        let expected = &mut self.rungs.expected;
        for (key, count) in attempts.into_values() {
            for mark in self.rungs.hasher.rung_keys(key) {
                *expected.entry(mark).or_default() += count;
            }
        }
        LadderLoader::default()
    }

    /// Adds an attempt that is older than all others to its rungs. It then shares its key with attempts of an equal key.
    pub(in super::super) fn push_older(
        &mut self,
        bulk: &mut LadderLoader,
        mut observation: RungObservation,
    ) -> Arc<AttemptBrief> {
        let Self { rungs, bytes, .. } = self;
        let at = bulk.find(&observation.brief.key, |key| {
            *bytes += bytes_of(key);
            rungs.register(key)
        });
        if let Some((key, standing)) = bulk.all.get_mut(at) {
            observation.share(key);
            *bytes += standing.count_one_more();
            standing.refresh_lists(rungs, key);
            for id in &standing.lists {
                rungs.lists.push_older(*id, &observation);
            }
        }
        observation.brief
    }

    /// Ends the bulk load.
    pub(in super::super) fn finish_load(&mut self, bulk: LadderLoader) {
        self.keys.extend(bulk.all);
        self.rungs.expected = HashMap::default();
    }
}
