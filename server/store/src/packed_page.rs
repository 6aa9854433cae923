//! A page of entries in one allocation.

use super::kv::{PAGE_BYTES, PAGE_ITEMS, PageLimit, ScanPage};

/// Like [`ScanPage`], but all keys and values share one allocation. With two allocations for each entry,
/// reading a million entries takes twice as long.
#[derive(Debug, Default)]
pub(super) struct PackedPage {
    bytes: Vec<u8>,
    /// Offsets in the buffer where each key and its value end.
    ends: Vec<(usize, usize)>,
    /// Whether there may be more entries after the last one.
    pub(super) more: bool,
}

impl PackedPage {
    /// Creates an empty page. It reserves half of the byte limit, so that the buffer rarely grows.
    pub(super) fn with_room(limit: PageLimit) -> Self {
        let bytes = Vec::with_capacity(limit.bytes.min(PAGE_BYTES) / 2);
        Self { bytes, ends: Vec::with_capacity(limit.items.min(PAGE_ITEMS)), more: false }
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// The entries, each as key and value, in order.
    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + ExactSizeIterator {
        (0..self.ends.len()).map(|at| {
            let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |ends| ends.1);
            let (key_end, end) = self.ends.get(at).copied().unwrap_or_default();
            (
                self.bytes.get(start..key_end).unwrap_or_default(),
                self.bytes.get(key_end..end).unwrap_or_default(),
            )
        })
    }

    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.entries().next_back().map(|(key, _)| key)
    }
}

impl From<ScanPage> for PackedPage {
    fn from(page: ScanPage) -> Self {
        let mut strip = Self { more: page.more, ..Self::default() };
        page.entries.iter().for_each(|entry| strip.push(&entry.key, &entry.value.value));
        strip
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{KeyValue, VersionedValue};

    #[test]
    fn a_strip_has_the_entries_of_the_page() {
        let entry = |key: &str, value: &str| KeyValue {
            key: key.into(),
            value: VersionedValue { version: 7, value: value.into() },
        };
        let page = ScanPage { entries: vec![entry("a", ""), entry("", "b"), entry("cd", "ef")], more: true };
        let strip = PackedPage::from(page.clone());
        let back: Vec<KeyValue> = strip
            .entries()
            .map(|(key, value)| KeyValue {
                key: key.to_vec(),
                value: VersionedValue { version: 7, value: value.to_vec() },
            })
            .collect();
        assert_eq!((back, strip.more), (page.entries, page.more));
        assert_eq!(strip.last_key(), Some(b"cd".as_slice()));
        assert_eq!(PackedPage::from(ScanPage::default()).last_key(), None);
    }
}
