//! Goes through the messages in the order in which they were written, and keeps what each says of keys.
//!
//! A page says which keys there are from its first to its last, and nothing else is in between; a change says it of one key. So the
//! newest message about a key counts, whichever page that is in, and a message that is lost costs what it alone said.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Bound::{Excluded, Included, Unbounded},
};

use super::{
    message::{LogMessage, MessageKind},
    page::{PageChange, PageContent, PageNode},
    survey::{LogHole, LogSurvey},
};

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueLocation {
    /// First byte in the file.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Log position of the message.
    pub(super) lsn: u64,
}

/// Keys from `lo` on and below `hi`, which is empty for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) lo: Vec<u8>,
    pub(super) hi: Vec<u8>,
    /// Log position of what says so.
    pub(super) lsn: u64,
}

impl KeyRange {
    /// Whether a key is one of them.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.lo.as_slice() <= key && (self.hi.is_empty() || key < self.hi.as_slice())
    }
}

/// What was last read of a page.
#[derive(Debug)]
pub(super) struct ReplayedPage {
    pub(super) range: KeyRange,
    pub(super) prefix: usize,
    /// It may have been written again in a hole.
    doubtful: bool,
    /// The pages below it, if it is none that holds values.
    pub(super) below: Option<Vec<(Vec<u8>, u64)>>,
}

/// A change of a page that is not known, or not for certain.
#[derive(Debug, Clone)]
pub(super) struct UnplacedChange {
    /// The key without its prefix.
    pub(super) key: Vec<u8>,
    /// `None` if the key goes.
    pub(super) value: Option<ValueLocation>,
    /// Log position of the change.
    pub(super) lsn: u64,
    /// Where the last hole before it begins: no page was written again unseen between there and here. 0 for a page of which nothing is known.
    pub(super) since: u64,
}

/// Where a message about a page stands.
struct MessagePosition {
    /// Log position.
    lsn: u64,
    /// First byte of its body in the file.
    body: u64,
}

/// Bytes of the message of a page, but for its keys and values.
const LEAST_PAGE: u64 = 12;

/// All that is known so far.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) entries: BTreeMap<Vec<u8>, ValueLocation>,
    pub(super) pages: HashMap<u64, ReplayedPage>,
    pub(super) freed: HashSet<u64>,
    /// What other pages say of the range of a page.
    pub(super) hints: HashMap<u64, KeyRange>,
    pub(super) unplaced: HashMap<u64, Vec<UnplacedChange>>,
    /// First keys of the pages that hold values.
    firsts: BTreeMap<Vec<u8>, u64>,
    /// A batch of which a part is missing lasts to this log position: what it removes stays.
    pub(super) keep_until: u64,
    /// Log position of the last hole so far.
    last_hole: u64,
    /// Messages that have no form that is known.
    pub(super) strange: u64,
}

impl Replay {
    /// Takes a message in; `base` is the place of its segment in the file.
    pub(super) fn take(&mut self, message: &LogMessage<'_>, lsn: u64, base: u64, survey: &LogSurvey) {
        let page = message.page;
        match message.kind {
            MessageKind::Node => match PageNode::read(message.body) {
                Some(node) => {
                    self.put(page, &node, &MessagePosition { lsn, body: base + message.body_at as u64 });
                }
                None => self.strange += 1,
            },
            MessageKind::Link if survey.is_superseded(page, lsn) => {}
            MessageKind::Link => match PageChange::read(message.body) {
                Some(change) => self.change(page, &change, lsn, base + message.body_at as u64),
                None => self.strange += 1,
            },
            MessageKind::Free => self.free(page),
            MessageKind::Batch => {
                let last = message.body.first_chunk().map(|last| u64::from_le_bytes(*last));
                if let Some(last) =
                    last.filter(|last| *last > self.keep_until && !survey.is_whole(lsn, *last))
                {
                    self.keep_until = last;
                }
            }
            MessageKind::Elsewhere => self.strange += 1,
            MessageKind::Canceled | MessageKind::Cap | MessageKind::Internal => {}
        }
    }

    /// Messages are missing here.
    pub(super) fn doubt(&mut self, hole: &LogHole) {
        self.last_hole = hole.lsn.unwrap_or(self.last_hole);
        match hole.only {
            Some((MessageKind::Node | MessageKind::Free, page)) => {
                self.pages.get_mut(&page).into_iter().for_each(|page| page.doubtful = true);
            }
            Some(_) => {}
            None => self.doubt_pages(hole.len),
        }
    }

    /// A segment is missing before this log position.
    pub(super) fn doubt_before(&mut self, lsn: u64) {
        self.last_hole = lsn;
        self.doubt_pages(u64::MAX);
    }

    /// Pages may have been written again in so many bytes. However long a page was, what a split leaves of it may be short; it begins with
    /// the same key.
    fn doubt_pages(&mut self, bytes: u64) {
        let fits = |page: &ReplayedPage| page.range.lo.len() as u64 + LEAST_PAGE <= bytes;
        self.pages.values_mut().for_each(|page| page.doubtful |= fits(page));
    }

    fn put(&mut self, page: u64, node: &PageNode<'_>, written: &MessagePosition) {
        let MessagePosition { lsn, body } = *written;
        self.unplaced.remove(&page);
        self.freed.remove(&page);
        if let Some(old) = self.pages.get(&page).filter(|old| self.firsts.get(&old.range.lo) == Some(&page)) {
            self.firsts.remove(&old.range.lo);
        }
        let range = KeyRange { lo: node.lo.to_vec(), hi: node.hi.to_vec(), lsn };
        let below = match &node.content {
            PageContent::Leaf(entries) => {
                self.note_split(page, &range);
                self.firsts.insert(range.lo.clone(), page);
                if lsn > self.keep_until {
                    self.clear(&range);
                }
                for (key, value) in entries {
                    let stored = ValueLocation { at: body + value.at as u64, len: value.len, lsn };
                    self.entries.insert(node.whole(key), stored);
                }
                None
            }
            PageContent::Index(children) => Some(self.note_children(node, &range, children)),
        };
        let prefix = node.prefix;
        self.pages.insert(page, ReplayedPage { range, prefix, doubtful: false, below });
    }

    /// A page that begins within another one was cut off from it; and a page that follows another one begins where that one ends.
    fn note_split(&mut self, page: u64, range: &KeyRange) {
        let before = self.firsts.range::<[u8], _>((Unbounded, Excluded(range.lo.as_slice()))).next_back();
        let Some((lo, whole)) =
            before.map(|(lo, whole)| (lo.clone(), *whole)).filter(|(_, whole)| *whole != page)
        else {
            return;
        };
        let within = |page: &ReplayedPage| page.range.hi.is_empty() || page.range.hi > range.lo;
        if self.pages.get(&whole).is_some_and(within) {
            self.hints.insert(whole, KeyRange { lo, hi: range.lo.clone(), lsn: range.lsn });
        }
    }

    fn note_children(
        &mut self,
        node: &PageNode<'_>,
        range: &KeyRange,
        children: &[(&[u8], u64)],
    ) -> Vec<(Vec<u8>, u64)> {
        let below: Vec<(Vec<u8>, u64)> =
            children.iter().map(|(key, page)| (node.whole(key), *page)).collect();
        let ends = below.iter().skip(1).map(|(lo, _)| lo).chain([&range.hi]);
        for ((lo, page), hi) in below.iter().zip(ends) {
            self.hints.insert(*page, KeyRange { lo: lo.clone(), hi: hi.clone(), lsn: range.lsn });
        }
        below
    }

    /// Removes what an older message says of these keys.
    fn clear(&mut self, range: &KeyRange) {
        let end = if range.hi.is_empty() { Unbounded } else { Excluded(range.hi.as_slice()) };
        let within = self.entries.range::<[u8], _>((Included(range.lo.as_slice()), end));
        let old: Vec<Vec<u8>> = within.map(|(key, _)| key.clone()).collect();
        for key in old {
            self.entries.remove(&key);
        }
    }

    fn change(&mut self, number: u64, change: &PageChange<'_>, lsn: u64, body: u64) {
        let known = self.pages.get(&number).filter(|page| !page.doubtful && page.below.is_none());
        let whole = |key: &[u8]| {
            let page = known?;
            Some([page.range.lo.get(..page.prefix).unwrap_or_default(), key].concat())
        };
        let (key, value) = match change {
            PageChange::Set(key, value) => {
                (key, Some(ValueLocation { at: body + value.at as u64, len: value.len, lsn }))
            }
            // on doubt a key stays
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
                let since = if self.pages.contains_key(&number) { self.last_hole } else { 0 };
                let unplaced = UnplacedChange { key: key.to_vec(), value, lsn, since };
                self.unplaced.entry(number).or_default().push(unplaced);
            }
        }
    }

    fn free(&mut self, page: u64) {
        self.unplaced.remove(&page);
        self.hints.remove(&page);
        self.freed.insert(page);
        if let Some(old) = self.pages.remove(&page)
            && self.firsts.get(&old.range.lo) == Some(&page)
        {
            self.firsts.remove(&old.range.lo);
        }
    }

    /// Ranges of keys whose page is named by others and is not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = &KeyRange> {
        let children = self.pages.values().filter_map(|page| page.below.as_ref()).flatten();
        let gone = children.filter(|(_, page)| !self.pages.contains_key(page) && !self.freed.contains(page));
        gone.filter_map(|(_, page)| self.hints.get(page))
    }

    /// The keys of a page since the log position `since`, if they did not change unseen, and what stands behind it tells them.
    pub(super) fn range_since(&self, page: u64, since: u64) -> Option<&KeyRange> {
        self.range_of(page).filter(|range| since == self.last_hole && range.lsn >= since)
    }

    /// The keys of a page, by the newest that says so.
    pub(super) fn range_of(&self, page: u64) -> Option<&KeyRange> {
        let (own, hint) = (self.pages.get(&page).map(|page| &page.range), self.hints.get(&page));
        match (own, hint) {
            (Some(own), Some(hint)) if hint.lsn > own.lsn => Some(hint),
            (own, hint) => own.or(hint),
        }
    }
}
