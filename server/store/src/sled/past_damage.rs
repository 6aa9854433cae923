//! Reads past ranges of keys that the engine cannot read, to recover the other entries.
//!
//! A damaged page of sled makes all keys of its range unreadable, and sled does not say which range. A lookup
//! of any key in the range fails, and a lookup of a key after it works: so bisection finds the end of the
//! range, one byte of the key at a time. Between several damaged pages close to each other some readable
//! entries may be skipped too; all skipped ranges are reported. A page with a wrong link can make sled go round in circles for seconds at
//! each lookup, so the search has a time limit; then everything after the last readable entry counts as unreadable.

use std::{
    ops::Bound::{Excluded, Included},
    time::Instant,
};

use super::{engine::Engine, engine_error::EngineError};
use crate::{
    errors::KeyText,
    kv::{PageLimit, ScanPage, UnreadableRange},
    range_end::{RangeEnd, SEARCH_WITHIN, SearchOver},
};

impl Engine {
    /// Like [`Self::scan`], but continues after a range that cannot be read, and returns that range.
    /// Errors: nothing behind can be read either, and that shows no damage: the disk is full, or the engine is closed.
    pub(crate) fn scan_past(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<(ScanPage, Option<UnreadableRange>), EngineError> {
        if let Ok(page) = self.scan(prefix, after, limit) {
            return Ok((page, None));
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
                Ok(_) => return Ok((ScanPage { more: false, ..page }, None)),
                Err(error) => {
                    let gap = self.skip_damage(last.as_deref().unwrap_or(prefix), prefix, &error, &mut page);
                    let is_damage = gap.until.is_some() || error.is_damage_of_reading();
                    return is_damage.then_some((page, Some(gap))).ok_or(error);
                }
            }
        }
        Ok((page, None))
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
