//! Reads past ranges of keys that the engine cannot read, to recover the other entries.
//!
//! A damaged page of sled makes all keys of its range unreadable, and sled does not say which range. A lookup
//! of any key in the range fails, and a lookup of a key after it works: so bisection finds the end of the
//! range, one byte of the key at a time. Between several damaged pages close to each other some readable
//! entries may be skipped too; all skipped ranges are reported.

use std::ops::Bound::{Excluded, Included};

use super::engine::{Engine, EngineError};
use crate::{
    bounds::MAX_KEY,
    errors::KeyText,
    kv::{KeyValue, PageLimit, ScanPage, UnreadableRange},
};

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
        let next = self.first_readable(last);
        let until = next.as_ref().map(|entry| KeyText(entry.key.clone()));
        let next = next.filter(|entry| entry.key.starts_with(prefix));
        page.more = next.is_some();
        page.entries.extend(next);
        let after = KeyText(if last == prefix { Vec::new() } else { last.to_vec() });
        UnreadableRange { after, until, reason: error.to_string() }
    }

    /// The first readable entry after `last`, if the entries directly after `last` cannot be read.
    fn first_readable(&self, last: &[u8]) -> Option<KeyValue> {
        let (mut prefix, mut found) = (Vec::new(), None);
        while prefix.len() < MAX_KEY {
            let Some(below) = self.last_unreadable(&prefix, last, &mut found) else { break };
            prefix.push(below);
        }
        found
    }

    /// The highest byte after `prefix` at which a lookup fails; `None` if all lookups work. Sets `found` to the
    /// entry found by the lowest lookup that works.
    fn last_unreadable(&self, prefix: &[u8], last: &[u8], found: &mut Option<KeyValue>) -> Option<u8> {
        let (mut low, mut high) = (0_u16, 256_u16);
        while low < high {
            let middle = u16::midpoint(low, high);
            let key = [prefix, &[u8::try_from(middle).unwrap_or(u8::MAX)]].concat();
            match self.first_from(Included(&key)).ok().filter(|_| key.as_slice() > last) {
                Some(entry) => (*found, high) = (entry, middle),
                None => low = middle + 1,
            }
        }
        low.checked_sub(1).and_then(|below| u8::try_from(below).ok())
    }
}
