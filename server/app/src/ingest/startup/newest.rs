//! The newest attempts of the store, which the history learns when the server starts. Their memory
//! is bounded like the history's.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::BuildHasher as _,
    sync::Arc,
};

use foldhash::fast::RandomState;
use plimsoll_core::{
    domain::{HistoryLimits, Key, RungObservation, Summary, bytes_of},
    stats::Stats,
};

/// Selects the newest of many attempts that come in any order, in bounded memory.
pub(super) struct NewestAttempts {
    pub(super) limits: HistoryLimits,
    /// Bytes of the attempts and their keys: the history will count more, never less.
    pub(super) bytes: usize,
    /// Attempts with their ends, milliseconds since 1970. The end is kept here, because looking it
    /// up during the selection would take longer than the selection.
    pub(super) kept: Vec<(u64, RungObservation)>,
    /// Each key once, by the hash of its texts: a million attempts have only some thousand
    /// different keys.
    pub(super) keys: HashMap<u64, Arc<Key>, RandomState>,
    stats: Stats,
}

impl NewestAttempts {
    pub(super) fn of(room: HistoryLimits, stats: Stats) -> Self {
        Self { limits: room, bytes: 0, kept: Vec::new(), keys: HashMap::default(), stats }
    }

    pub(super) fn take(&mut self, summary: &Summary) {
        let key = self.key_of(&summary.key);
        let observation = RungObservation::of(summary, key);
        self.bytes += bytes_of(&observation.brief);
        self.stats.add(&summary.into(), &observation.brief);
        self.kept.push((summary.ended_unix_ms(), observation));
        // removing surplus attempts now and then costs less than keeping them in order all the time
        let capacity = self.limits.attempts;
        if self.kept.len() >= capacity.saturating_add(capacity / 8).saturating_add(1024) {
            self.keep_newest(capacity);
        }
        if self.bytes > self.limits.bytes.saturating_add(self.limits.bytes / 8) {
            self.drop_all_but_newest();
        }
    }

    /// The shared copy of an attempt's key. The memory of a new key is counted.
    pub(super) fn key_of(&mut self, key: &Key) -> Arc<Key> {
        let texts = key.build_key_texts();
        let entry = self.keys.entry(self.keys.hasher().hash_one(texts));
        if let Entry::Occupied(known) = &entry
            && known.get().build_key_texts() == texts
        {
            return Arc::clone(known.get());
        }
        let new = Arc::new(key.build_key());
        self.bytes += new.allocated_bytes();
        // of two keys with one hash, one is not shared
        entry.or_insert_with(|| Arc::clone(&new));
        new
    }

    /// Keeps only the newest `most` attempts, in no order, and the keys that they use.
    pub(super) fn keep_newest(&mut self, most: usize) {
        let most = most.max(1);
        if self.kept.len() > most {
            self.kept.select_nth_unstable_by(most, newest_first);
            self.kept.truncate(most);
            self.forget_the_others();
        }
    }

    /// Keeps only the newest attempts that the history may have room for, newest first.
    fn drop_all_but_newest(&mut self) {
        self.kept.sort_unstable_by(newest_first);
        let (mut bytes, mut keys) = (0, HashSet::<*const Key, RandomState>::default());
        let mut fits = |(_, observation): &(u64, RungObservation)| {
            let key = &observation.brief.key;
            let of_key = if keys.insert(Arc::as_ptr(key)) { key.allocated_bytes() } else { 0 };
            bytes += bytes_of(&observation.brief) + of_key;
            bytes <= self.limits.bytes
        };
        let most = self.kept.iter().take_while(|one| fits(one)).count();
        self.kept.truncate(most.max(1));
        self.forget_the_others();
    }

    /// Removes from the statistics and keys what only removed attempts used.
    fn forget_the_others(&mut self) {
        self.stats.sweep();
        self.keys.retain(|_, key| Arc::strong_count(key) > 1);
        let attempts = self.kept.iter().map(|(_, observation)| bytes_of(&observation.brief)).sum::<usize>();
        self.bytes = attempts + self.keys.values().map(|key| key.allocated_bytes()).sum::<usize>();
    }

    /// The newest attempts.
    pub(super) fn finish(mut self) -> Vec<RungObservation> {
        self.keep_newest(self.limits.attempts);
        // the history orders them, too, and takes less time for it if they are in order
        self.kept.sort_unstable_by(|one, other| newest_first(other, one));
        self.kept.into_iter().map(|(_, observation)| observation).collect()
    }
}

/// Orders by end, then by id, as the history does; the newest comes first.
fn newest_first(one: &(u64, RungObservation), other: &(u64, RungObservation)) -> Ordering {
    other.0.cmp(&one.0).then_with(|| other.1.brief.attempt.cmp(&one.1.brief.attempt))
}
