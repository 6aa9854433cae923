//! Reads past ranges of keys that the engine cannot read, to recover the other entries.
//!
//! A damaged page of sled makes all keys of its range unreadable, and sled does not say which range. A lookup
//! of any key in the range fails, and a lookup of a key after it works: so bisection finds the end of the
//! range, one byte of the key at a time. Between several damaged pages close to each other some readable
//! entries may be skipped too; all skipped ranges are reported. A page with a wrong link can make sled go round in circles for seconds at
//! each lookup, so the search has a time limit; then everything after the last readable entry counts as unreadable.

use std::{
    ops::Bound::{Excluded, Included},
    time::{Duration, Instant},
};

use super::engine::{Engine, EngineError};
use crate::{
    bounds::MAX_KEY,
    errors::KeyText,
    kv::{KeyValue, PageLimit, ScanPage, UnreadableRange},
};

/// How long the search for the end of an unreadable range may take. It makes some 2,000 lookups of some 50 us.
const SEARCH_WITHIN: Duration = Duration::from_secs(10);

impl Engine {
    /// Like [`Self::scan`], but continues after a range that cannot be read, and returns that range.
    pub(crate) fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> (ScanPage, Option<UnreadableRange>) {
        if let Ok(page) = self.scan(prefix, after, limit) {
            return (page, None);
        }
        // near the damage, read one entry at a time up to it
        let mut page = ScanPage { more: true, ..ScanPage::default() };
        let mut last = after.filter(|after| *after >= prefix).map(<[u8]>::to_vec);
        while page.entries.len() < limit.items {
            let from = last.as_deref().map_or(Included(prefix), Excluded);
            match self.first_from(from) {
                Ok(Some(entry)) if entry.key.starts_with(prefix) => {
                    last = Some(entry.key.clone());
                    page.entries.push(entry);
                }
                Ok(_) => return (ScanPage { more: false, ..page }, None),
                Err(error) => {
                    let gap = self.skip_damage(last.as_deref().unwrap_or(prefix), prefix, &error, &mut page);
                    return (page, Some(gap));
                }
            }
        }
        (page, None)
    }

    /// Adds the first entry after the unreadable range to the page, if it has the prefix and the page has
    /// space.
    fn skip_damage(
        &self,
        last: &[u8],
        prefix: &[u8],
        error: &EngineError,
        page: &mut ScanPage,
    ) -> UnreadableRange {
        let deadline = Instant::now() + SEARCH_WITHIN;
        let found = RangeEnd {
            lookup: |key: &[u8]| self.first_from(Included(key)).ok(),
            is_over: || Instant::now() >= deadline,
            last,
            found: None,
        }
        .find();
        let (next, reason) = match found {
            Ok(next) => (next, error.to_string()),
            Err(SearchOver) => (None, format!("{error}; what follows takes too long to read")),
        };
        let until = next.as_ref().map(|entry| KeyText(entry.key.clone()));
        let next = next.filter(|entry| entry.key.starts_with(prefix));
        page.more = next.is_some();
        page.entries.extend(next);
        let after = KeyText(if last == prefix { Vec::new() } else { last.to_vec() });
        UnreadableRange { after, until, reason }
    }
}

/// The search for the end of an unreadable range took too long.
#[derive(Debug, PartialEq, Eq)]
struct SearchOver;

/// A search for the end of an unreadable range.
struct RangeEnd<'k, L, O> {
    /// The first entry at or after a key (`None` behind the last one); `None` if it cannot be read.
    lookup: L,
    is_over: O,
    /// The last key before the range.
    last: &'k [u8],
    /// What the lookup of the lowest key found that could be read.
    found: Option<KeyValue>,
}

impl<L, O> RangeEnd<'_, L, O>
where
    L: Fn(&[u8]) -> Option<Option<KeyValue>>,
    O: Fn() -> bool,
{
    /// The first readable entry after the range; `None` if nothing after it can be read.
    fn find(mut self) -> Result<Option<KeyValue>, SearchOver> {
        let mut prefix = Vec::new();
        while prefix.len() < MAX_KEY {
            let Some(below) = self.last_unreadable(&prefix)? else { break };
            prefix.push(below);
        }
        Ok(self.found)
    }

    /// The highest byte after `prefix` at which a lookup fails; `None` if all lookups work.
    fn last_unreadable(&mut self, prefix: &[u8]) -> Result<Option<u8>, SearchOver> {
        let (mut low, mut high) = (0_u16, 256_u16);
        while low < high {
            if (self.is_over)() {
                return Err(SearchOver);
            }
            let middle = u16::midpoint(low, high);
            let key = [prefix, &[u8::try_from(middle).unwrap_or(u8::MAX)]].concat();
            match (self.lookup)(&key).filter(|_| key.as_slice() > self.last) {
                Some(entry) => (self.found, high) = (entry, middle),
                None => low = middle + 1,
            }
        }
        Ok(low.checked_sub(1).and_then(|below| u8::try_from(below).ok()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::kv::VersionedValue;

    /// Searches where the keys from `b` to below `until` cannot be read, with at most this many lookups.
    fn search(until: &[u8], lookups: u32) -> (Result<Option<KeyValue>, SearchOver>, u32) {
        let made = Cell::new(0);
        let value = VersionedValue { version: 1, value: Vec::new() };
        let search = RangeEnd {
            lookup: |key: &[u8]| {
                made.set(made.get() + 1);
                let entry = || KeyValue { key: until.to_vec(), value: value.clone() };
                (key >= until || key < b"b".as_slice()).then(|| Some(entry()))
            },
            is_over: || made.get() >= lookups,
            last: b"b",
            found: None,
        };
        (search.find(), made.get())
    }

    #[test]
    fn the_end_of_a_range_is_found_and_a_search_that_takes_too_long_ends() {
        let (found, made) = search(b"cde", u32::MAX);
        assert_eq!(found.unwrap().unwrap().key, b"cde");
        assert!(made < 10_000, "{made}");
        assert_eq!(search(b"cde", 20), (Err(SearchOver), 20));
    }
}
