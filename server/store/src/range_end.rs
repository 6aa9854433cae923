//! Searches where a range of keys ends that an engine cannot read: a lookup of any key in the range fails, and one of a key after it works,
//! so bisection finds the end, one byte of the key at a time.

use std::time::Duration;

use crate::{bounds::MAX_KEY, kv::KeyValue};

/// How long a search may take. It makes some 2,000 lookups of 50 us.
pub(crate) const SEARCH_WITHIN: Duration = Duration::from_secs(10);

/// The search for the end of an unreadable range took too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchOver;

/// A search for the end of an unreadable range.
pub(crate) struct RangeEnd<'k, L, O> {
    /// The first entry at or after a key (`None` behind the last one); `None` if it cannot be read.
    pub(crate) lookup: L,
    /// Whether the search has taken too long.
    pub(crate) is_over: O,
    /// The last key before the range.
    pub(crate) last: &'k [u8],
    /// What the lookup of the lowest key found that could be read.
    pub(crate) found: Option<KeyValue>,
}

impl<L, O> RangeEnd<'_, L, O>
where
    L: Fn(&[u8]) -> Option<Option<KeyValue>>,
    O: Fn() -> bool,
{
    /// The first readable entry after the range; `None` if nothing after it can be read.
    pub(crate) fn find(mut self) -> Result<Option<KeyValue>, SearchOver> {
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
    fn the_range_end_search_is_bounded() {
        let (found, made) = search(b"cde", u32::MAX);
        assert_eq!(found.unwrap().unwrap().key, b"cde");
        assert!(made < 10_000, "{made}");
        assert_eq!(search(b"cde", 20), (Err(SearchOver), 20));
    }
}
