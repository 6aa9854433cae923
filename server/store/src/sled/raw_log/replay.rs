//! Replays the messages in the order in which they were written, and keeps the newest state of each key.
//!
//! A message with a page has all keys of a range; a message with a change has one key. The newest message about
//! a key counts, whichever page it is about. So if a message is lost, only what no other message contains is
//! lost.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Bound::{Excluded, Included, Unbounded},
};

use super::{
    message::{LogMessage, MessageKind, RewrittenPages},
    page::{PageChange, PageContent, PageNode},
    survey::{LogHole, LogSurvey},
};

/// Position of a value in the log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueLocation {
    /// Position of the value's first byte in the file.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Log position of the message that contains the value.
    pub(super) lsn: u64,
}

/// The keys from `lo` (included) to `hi` (excluded); an empty `hi` is the end of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl KeyRange {
    fn holds(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }
}

/// A page as its last readable message shows it.
#[derive(Debug)]
pub(super) struct ReplayedPage {
    pub(super) range: KeyRange,
    pub(super) prefix: usize,
    /// Whether the page may have been rewritten in a hole of the log, so that this state is outdated.
    possibly_outdated: bool,
    /// First key and number of each child page, if this is an index page.
    pub(super) below: Option<Vec<(Vec<u8>, u64)>>,
}

/// Position of a message about a page, in the log and in the file.
struct MessagePosition {
    /// Log position of the message.
    lsn: u64,
    /// Position in the log file of the first byte of the message's body.
    body: u64,
}

/// Least bytes of a message with a page, besides its keys and values.
const MIN_PAGE: u64 = 12;

/// State of the replay.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) entries: BTreeMap<Vec<u8>, ValueLocation>,
    pages: HashMap<u64, ReplayedPage>,
    freed_pages: HashSet<u64>,
    /// Key ranges of pages, according to the pages above them.
    hinted_ranges: HashMap<u64, KeyRange>,
    /// How many values each page lacks that were set while the page was unknown or possibly outdated: their full keys are unknown.
    keyless_values: HashMap<u64, u64>,
    /// Log position up to which removals are ignored: they belong to an incomplete batch.
    keep_until: u64,
    /// Number of messages in an unknown form.
    unknown_forms: u64,
}

impl Replay {
    /// Applies a message; `lsn` is its log position, `base` the position of its segment in the file.
    pub(super) fn apply_message(
        &mut self,
        message: &LogMessage<'_>,
        lsn: u64,
        base: u64,
        survey: &LogSurvey,
    ) {
        let page = message.page;
        match message.kind {
            MessageKind::Node => match PageNode::read(message.body) {
                Some(node) => {
                    self.put_page(page, &node, &MessagePosition { lsn, body: base + message.body_at as u64 });
                }
                None => self.unknown_forms += 1,
            },
            MessageKind::Link if survey.is_superseded(page, lsn) => {}
            MessageKind::Link => match PageChange::read(message.body) {
                Some(change) => self.apply_change(page, &change, lsn, base + message.body_at as u64),
                None => self.unknown_forms += 1,
            },
            MessageKind::Free => self.free_page(page),
            MessageKind::Batch => {
                let last = message.body.first_chunk().map(|last| u64::from_le_bytes(*last));
                if let Some(last) =
                    last.filter(|last| *last > self.keep_until && !survey.is_whole(lsn, *last))
                {
                    self.keep_until = last;
                }
            }
            MessageKind::Elsewhere => self.unknown_forms += 1,
            MessageKind::Canceled | MessageKind::Cap | MessageKind::Internal => {}
        }
    }

    /// Call this where messages are missing: it marks the pages that the lost messages may have rewritten.
    pub(super) fn mark_outdated(&mut self, hole: &LogHole) {
        match hole.rewritten {
            RewrittenPages::None => {}
            RewrittenPages::One(page) => {
                self.pages.get_mut(&page).into_iter().for_each(|page| page.possibly_outdated = true);
            }
            RewrittenPages::All => self.mark_pages_outdated(hole.len),
        }
    }

    /// Call this where a segment is missing: it may have rewritten any page.
    pub(super) fn mark_all_outdated(&mut self) {
        self.mark_pages_outdated(u64::MAX);
    }

    /// Marks each page if its message would fit into this many lost bytes. A split may shorten a page, but not
    /// its first key, so only the first key counts.
    fn mark_pages_outdated(&mut self, bytes: u64) {
        let fits = |page: &ReplayedPage| page.range.start.len() as u64 + MIN_PAGE <= bytes;
        self.pages.values_mut().for_each(|page| page.possibly_outdated |= fits(page));
    }

    fn put_page(&mut self, page: u64, node: &PageNode<'_>, written: &MessagePosition) {
        let MessagePosition { lsn, body } = *written;
        self.keyless_values.remove(&page);
        self.freed_pages.remove(&page);
        let range = KeyRange { start: node.start.to_vec(), end: node.end.to_vec() };
        let below = match &node.content {
            PageContent::Leaf(entries) => {
                if lsn > self.keep_until {
                    self.clear_range(&range);
                }
                for (key, value) in entries {
                    let stored = ValueLocation { at: body + value.position as u64, len: value.len, lsn };
                    self.entries.insert(node.full_key(key), stored);
                }
                None
            }
            PageContent::Index(children) => Some(self.note_children(node, &range, children)),
        };
        let prefix = node.prefix;
        self.pages.insert(page, ReplayedPage { range, prefix, possibly_outdated: false, below });
    }

    fn note_children(
        &mut self,
        node: &PageNode<'_>,
        range: &KeyRange,
        children: &[(&[u8], u64)],
    ) -> Vec<(Vec<u8>, u64)> {
        let below: Vec<(Vec<u8>, u64)> =
            children.iter().map(|(key, page)| (node.full_key(key), *page)).collect();
        let ends = below.iter().skip(1).map(|(lo, _)| lo).chain([&range.end]);
        for ((lo, page), hi) in below.iter().zip(ends) {
            self.hinted_ranges.insert(*page, KeyRange { start: lo.clone(), end: hi.clone() });
        }
        below
    }

    /// Removes the entries in this range: the page that lists the range anew replaces them.
    fn clear_range(&mut self, range: &KeyRange) {
        let end = if range.end.is_empty() { Unbounded } else { Excluded(range.end.as_slice()) };
        let within = self.entries.range::<[u8], _>((Included(range.start.as_slice()), end));
        let old: Vec<Vec<u8>> = within.map(|(key, _)| key.clone()).collect();
        for key in old {
            self.entries.remove(&key);
        }
    }

    fn apply_change(&mut self, number: u64, change: &PageChange<'_>, lsn: u64, body: u64) {
        let known = self.pages.get(&number).filter(|page| !page.possibly_outdated && page.below.is_none());
        let whole = |key: &[u8]| {
            let page = known?;
            let whole = [page.range.start.get(..page.prefix).unwrap_or_default(), key].concat();
            page.range.holds(&whole).then_some(whole)
        };
        let (key, value) = match change {
            PageChange::Set(key, value) => {
                (key, Some(ValueLocation { at: body + value.position as u64, len: value.len, lsn }))
            }
            // a removal in an incomplete batch is doubtful: keep the key
            PageChange::Delete(key) if lsn > self.keep_until => (key, None),
            PageChange::Delete(_) | PageChange::Merge => return,
        };
        match (whole(key), value) {
            (Some(key), Some(value)) => {
                self.entries.insert(key, value);
            }
            (Some(key), None) => {
                self.entries.remove(&key);
            }
            (None, value) => {
                *self.keyless_values.entry(number).or_default() += u64::from(value.is_some());
            }
        }
    }

    fn free_page(&mut self, page: u64) {
        self.keyless_values.remove(&page);
        self.hinted_ranges.remove(&page);
        self.freed_pages.insert(page);
        self.pages.remove(&page);
    }

    /// Key ranges of the child pages that have no message of their own.
    pub(super) fn missing_ranges(&self) -> impl Iterator<Item = &KeyRange> {
        let children = self.pages.values().filter_map(|page| page.below.as_ref()).flatten();
        let gone =
            children.filter(|(_, page)| !self.pages.contains_key(page) && !self.freed_pages.contains(page));
        gone.filter_map(|(_, page)| self.hinted_ranges.get(page))
    }

    /// How many changes are lost because their keys or their form are unknown.
    pub(super) fn lost_changes(&self) -> u64 {
        self.keyless_values.values().sum::<u64>() + self.unknown_forms
    }

    /// Whether one page has all these keys.
    #[cfg(test)]
    pub(super) fn is_one_page(&self, keys: &[&Vec<u8>]) -> bool {
        let mut leaves = self.pages.values().filter(|page| page.below.is_none());
        keys.is_empty() || leaves.any(|page| keys.iter().all(|key| page.range.holds(key)))
    }
}
