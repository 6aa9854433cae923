//! The newest attempts of the store, which the history learns when the server starts. Their memory
//! is bounded like the history's.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use plimsoll_core::{
    domain::{HistoryLimits, Key, RungObservation, Summary, bytes_of},
    stats::Stats,
};

/// Selects the newest of many attempts that come in any order, in bounded memory.
pub(super) struct NewestAttempts {
    pub(super) limits: HistoryLimits,
    /// Bytes of the attempts and their keys, which is most of the memory that the history will
    /// count.
    pub(super) bytes: usize,
    /// Attempts with their ends, milliseconds since 1970. The end is kept here, because looking it
    /// up during the sort would take longer than the sort.
    pub(super) kept: Vec<(u64, RungObservation)>,
    /// Each key once, by its concatenated texts: a million attempts have only some thousand
    /// different keys.
    pub(super) keys: HashMap<Box<[u8]>, Arc<Key>, RandomState>,
    /// The concatenated texts of the last key; kept to reuse its memory.
    texts: Vec<u8>,
    stats: Stats,
}

impl NewestAttempts {
    pub(super) fn of(room: HistoryLimits, stats: Stats) -> Self {
        Self { limits: room, bytes: 0, kept: Vec::new(), keys: HashMap::default(), texts: Vec::new(), stats }
    }

    pub(super) fn take(&mut self, summary: &Summary) {
        let key = self.key_of(&summary.key);
        let observation = RungObservation::of(summary, key);
        self.bytes += bytes_of(&observation.brief);
        self.stats.add_one_of_many(&summary.into(), &observation.brief);
        self.kept.push((summary.ended_unix_ms(), observation));
        // removing surplus attempts now and then costs less than keeping them in order all the time
        let capacity = self.limits.attempts;
        if self.kept.len() >= capacity.saturating_add(capacity / 8).saturating_add(1024) {
            self.keep_newest(capacity);
        }
        while self.bytes > self.limits.bytes && self.kept.len() > 1 {
            self.keep_newest(self.kept.len() / 8 * 7);
        }
    }

    /// The shared copy of an attempt's key. The memory of a new key is counted.
    pub(super) fn key_of(&mut self, key: &Key) -> Arc<Key> {
        self.texts.clear();
        for text in key.build_key_texts() {
            self.texts.extend_from_slice(&text.len().to_le_bytes());
            self.texts.extend_from_slice(text.as_bytes());
        }
        if let Some(known) = self.keys.get(self.texts.as_slice()) {
            return Arc::clone(known);
        }
        let new = Arc::new(key.build_key());
        self.bytes += new.allocated_bytes() + self.texts.len();
        self.keys.insert(self.texts.as_slice().into(), Arc::clone(&new));
        new
    }

    /// Keeps only the newest `most` attempts, in no order, and the keys that they use.
    pub(super) fn keep_newest(&mut self, most: usize) {
        let most = most.max(1);
        if self.kept.len() > most {
            self.kept.select_nth_unstable_by_key(most, |(ended, _)| std::cmp::Reverse(*ended));
            self.kept.truncate(most);
            self.stats.sweep();
            self.keys.retain(|_, key| Arc::strong_count(key) > 1);
            let attempts =
                self.kept.iter().map(|(_, observation)| bytes_of(&observation.brief)).sum::<usize>();
            self.bytes = attempts
                + self.keys.iter().map(|(texts, key)| texts.len() + key.allocated_bytes()).sum::<usize>();
        }
    }

    /// The newest attempts, oldest first: the attempt that is added last to the history weighs
    /// most.
    pub(super) fn oldest_first(mut self) -> Vec<RungObservation> {
        self.keep_newest(self.limits.attempts);
        // attempts with equal ends have a fixed order, whichever were removed before
        let in_order = |a: &(u64, RungObservation), b: &(u64, RungObservation)| {
            a.0.cmp(&b.0).then_with(|| a.1.brief.attempt.cmp(&b.1.brief.attempt))
        };
        self.kept.sort_unstable_by(in_order);
        self.kept.into_iter().map(|(_, observation)| observation).collect()
    }
}
