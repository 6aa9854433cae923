//! Reads past ranges that the engine cannot read, to recover the rest.
//!
//! A damaged page of sled makes all keys of its range unreadable, and sled does not report the range. But looking up any key in it fails,
//! and looking up the next key after it works: so its end is found by bisection, one byte of the key at a time. With several damaged pages
//! close to each other, entries between them may be skipped too; skipped ranges are reported.

use std::ops::Bound::{Excluded, Included};

use super::engine::{Engine, EngineError};
use crate::{
    bounds::MAX_KEY,
    errors::KeyText,
    kv::{KeyValue, PageLimit, ScanPage, UnreadableRange},
};

impl Engine {
    /// Like [`Self::scan`]; continues after ranges that cannot be read, and reports them.
    pub(crate) fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> (ScanPage, Option<UnreadableRange>) {
        if let Ok(page) = self.scan(prefix, after, limit) {
            return (page, None);
        }
        // one entry at a time up to the damage
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

    /// Adds the first entry after the damage to the page, if it belongs there.
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

    /// The first readable entry after `last`, where the entry directly after `last` cannot be read.
    fn first_readable(&self, last: &[u8]) -> Option<KeyValue> {
        let (mut prefix, mut found) = (Vec::new(), None);
        while prefix.len() < MAX_KEY {
            let Some(below) = self.last_unreadable(&prefix, last, &mut found) else { break };
            prefix.push(below);
        }
        found
    }

    /// The highest byte after `prefix` at which nothing can be read; `None` if there is none. Sets `found` to the first entry of the
    /// lowest readable position.
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
