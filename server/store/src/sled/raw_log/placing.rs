//! Finds the full keys of changes to pages that were lost, or may have been rewritten where the log is damaged.
//! In the log their keys lack the leading bytes (the prefix) that all keys of a page share.
//!
//! The prefix is taken from these sources, in this order. A record contains the id of its attempt or ticket, so
//! it shows its whole key, and with it the prefix of the page. Other pages may show which keys the page had.
//! The page as it was last read shows its first key, but not how many bytes of it are the prefix, because a
//! split of the page may change that. Last, the known attempts: if with only one prefix all changes of the page
//! belong to known attempts, it is that one. A key from the last two sources must be confirmed by the records;
//! samples do not contain an attempt's id, so they must belong to a known attempt. A change without a confirmed
//! key is dropped: a value under a wrong key is worse than none.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    RawLog,
    replay::{KeyRange, UnplacedChange},
    versioned,
};
use crate::{
    keys::{self, KeyKind},
    kv::StoreIdentity,
    sled::{engine::IDENTITY, readable_records},
};

/// Longest prefix of the keys of a page, bytes.
const LONGEST_PREFIX: usize = 255;
/// The codec byte of chunks that are fragments.
const FRAGMENTS_CODEC: u8 = 1;

/// The time in which one page is known not to have been rewritten: from one hole of the log to the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PageSpan {
    /// Log position at which the hole before this time starts.
    last_hole: u64,
    page: u64,
}

/// Changes of one page, made between two holes of the log; their full keys are unknown.
struct KeylessChanges {
    span: PageSpan,
    /// The leading bytes of all keys of the page, if another change of the page shows them.
    prefix: Option<Vec<u8>>,
    changes: Vec<UnplacedChange>,
}

impl RawLog {
    /// Finds the full keys of changes, and applies those changes; returns the number of values with a key that
    /// remains unknown.
    pub(super) fn place_all(&mut self) -> u64 {
        let mut waiting: BTreeMap<PageSpan, Vec<UnplacedChange>> = BTreeMap::new();
        for (page, changes) in self.replay.unplaced_changes.drain() {
            for change in changes {
                waiting.entry(PageSpan { last_hole: change.last_hole, page }).or_default().push(change);
            }
        }
        // first apply the records that contain their attempt's id: this also shows which attempts exist
        let rest: Vec<KeylessChanges> =
            waiting.into_iter().map(|(span, changes)| self.place_with_key(span, changes)).collect();
        rest.iter().map(|keyless| self.place_keyless(keyless)).sum()
    }

    fn place_with_key(&mut self, span: PageSpan, changes: Vec<UnplacedChange>) -> KeylessChanges {
        let mut keyless = KeylessChanges { span, prefix: None, changes: Vec::new() };
        for change in changes {
            let Some(key) = self.known_key(&change) else {
                keyless.changes.push(change);
                continue;
            };
            keyless.prefix = key.strip_suffix(change.key.as_slice()).map(<[u8]>::to_vec);
            self.apply(key, &change);
        }
        keyless
    }

    fn place_keyless(&mut self, keyless: &KeylessChanges) -> u64 {
        let KeylessChanges { span: PageSpan { page, last_hole }, prefix, changes } = keyless;
        let by_range = || {
            let prefix = prefix_within(self.replay.range_of(*page)?);
            (self.count_proofs(&prefix, changes) > 0).then_some(prefix)
        };
        let certain =
            prefix.clone().or_else(|| self.replay.range_since(*page, *last_hole).map(prefix_within));
        let found = certain.clone().or_else(|| self.prefix_by_first_key(*page, changes));
        let found = found.or_else(by_range).or_else(|| self.only_prefix(changes));
        let mut lost = 0;
        for change in changes {
            let whole = |prefix: &Vec<u8>| [prefix.as_slice(), &change.key].concat();
            let proven = |prefix: &&Vec<u8>| match certain {
                Some(_) => keys::is_well_formed(&whole(prefix)),
                None => self.fits_prefix(prefix, change),
            };
            let key = found.as_ref().filter(proven).map(whole).or_else(|| self.old_key(*page, change));
            match key {
                Some(key) => self.apply(key, change),
                None => lost += u64::from(change.value.is_some()),
            }
        }
        lost
    }

    /// Applies a change, unless a newer change of the same key was applied.
    fn apply(&mut self, key: Vec<u8>, change: &UnplacedChange) {
        let is_newer = self.replay.entries.get(&key).is_none_or(|old| old.lsn < change.lsn);
        match change.value {
            Some(value) if is_newer => {
                self.replay.entries.insert(key, value);
            }
            None if is_newer => {
                self.replay.entries.remove(&key);
            }
            _ => {}
        }
    }

    /// The full key of a change, if its value contains it.
    fn known_key(&self, change: &UnplacedChange) -> Option<Vec<u8>> {
        let bytes = self.value(&change.value?).ok()?;
        if StoreIdentity::decode(&bytes).is_some() {
            return IDENTITY.ends_with(&change.key).then(|| IDENTITY.to_vec());
        }
        readable_records::key_of(&versioned(&bytes)?.value, &change.key)
    }

    /// The bytes that all keys of a page begin with, which its changes omit: the start of its first key, of the length with which the most
    /// changes belong to known attempts. `None` if two lengths fit equally well.
    fn prefix_by_first_key(&self, page: u64, changes: &[UnplacedChange]) -> Option<Vec<u8>> {
        let range = &self.replay.pages.get(&page)?.range;
        let lens = 0..=range.start.len().min(LONGEST_PREFIX);
        let prefixes = lens.filter_map(|len| range.start.get(..len)).filter(|prefix| {
            let mut keys = changes.iter().map(|change| [prefix, change.key.as_slice()].concat());
            keys.all(|key| keys::is_well_formed(&key) && range.holds(&key))
        });
        let counted: Vec<(usize, &[u8])> =
            prefixes.map(|prefix| (self.count_proofs(prefix, changes), prefix)).collect();
        let most = counted.iter().map(|(count, _)| *count).max().filter(|most| *most > 0)?;
        let mut best = counted.iter().filter(|(count, _)| *count == most);
        let (_, first) = best.next()?;
        best.next().is_none().then(|| first.to_vec())
    }

    /// Counts the values that belong to known attempts if the keys have this prefix. Removals do not count:
    /// another page may have a key with the same end.
    fn count_proofs(&self, prefix: &[u8], changes: &[UnplacedChange]) -> usize {
        let values = changes.iter().filter(|change| change.value.is_some());
        values.filter(|change| self.fits_prefix(prefix, change)).count()
    }

    /// The full key of a part of a record, if its page still has its old prefix. The record is complete only if
    /// that is true.
    fn old_key(&self, page: u64, change: &UnplacedChange) -> Option<Vec<u8>> {
        change.value?;
        let page = self.replay.pages.get(&page).filter(|page| page.below.is_none())?;
        let key = [page.range.start.get(..page.prefix)?, &change.key].concat();
        let is_record = KeyKind::of(&key).is_some_and(|kind| !kind.is_chunk());
        (is_record && keys::is_well_formed(&key) && page.range.holds(&key)).then_some(key)
    }

    /// Whether a change, if its key has this prefix, belongs to a known attempt, or removes a known key.
    fn fits_prefix(&self, prefix: &[u8], change: &UnplacedChange) -> bool {
        let key = [prefix, &change.key].concat();
        let is_known = match change.value {
            Some(_) => self.knows_the_attempt_of(&key),
            None => self.replay.entries.contains_key(&key),
        };
        is_known && keys::is_well_formed(&key)
    }

    /// The only prefix with which all changes belong to known attempts; `None` if there are several.
    fn only_prefix(&self, changes: &[UnplacedChange]) -> Option<Vec<u8>> {
        let first = changes.iter().find(|change| change.value.is_some())?;
        let codec = *versioned(&self.value(&first.value?).ok()?)?.value.first()?;
        let kind = if codec == FRAGMENTS_CODEC { KeyKind::Fragment } else { KeyKind::Block };
        let start = first.key.get(first.key.len().checked_sub(kind.tail_bytes())?..)?;
        let known = [KeyKind::Attempt, KeyKind::Summary].map(|kind| kind as u8);
        let keys =
            self.replay.entries.keys().filter(|key| key.first().is_some_and(|kind| known.contains(kind)));
        let prefixes = keys.filter_map(|key| keys::id_of(key)).filter_map(|id| {
            let key = [kind.prefix_of(&id).as_slice(), start].concat();
            key.strip_suffix(first.key.as_slice()).map(<[u8]>::to_vec)
        });
        let prefixes: BTreeSet<Vec<u8>> = prefixes.collect();
        let mut fitting = prefixes.into_iter().filter(|prefix| {
            changes
                .iter()
                .filter(|change| change.value.is_some())
                .all(|change| self.fits_prefix(prefix, change))
        });
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn knows_the_attempt_of(&self, key: &[u8]) -> bool {
        let Some(id) = keys::id_of(key) else { return false };
        [KeyKind::Attempt, KeyKind::Summary].iter().any(|kind| {
            let first = [kind.prefix_of(&id).as_slice(), &[0]].concat();
            self.replay.entries.contains_key(&first)
        })
    }
}

/// The leading bytes that all keys in this range share.
fn prefix_within(range: &KeyRange) -> Vec<u8> {
    let alike = range.start.iter().zip(&range.end).take(LONGEST_PREFIX).take_while(|(a, b)| a == b);
    alike.map(|(byte, _)| *byte).collect()
}
