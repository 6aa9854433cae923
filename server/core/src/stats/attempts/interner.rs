//! Replaces texts that many attempts share by numbers of two bytes, so that each text is stored once.
//!
//! A text is removed with the last attempt that has it. The number of texts is limited; further texts share the number [`OTHERS`].

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

/// The number that all texts share which did not fit.
pub(in crate::stats) const OTHERS: u16 = u16::MAX;
/// Name shown for texts that did not fit.
pub(in crate::stats) const OTHERS_NAME: &str = plimsoll_proto::sums::OTHERS_GROUP;
/// The number of the empty text.
pub(in crate::stats) const NONE: u16 = 0;

/// A limited set of texts, each with a number.
#[derive(Debug)]
pub(in crate::stats) struct Interner {
    /// Most texts that the set takes.
    most: usize,
    entries: Vec<InternedText>,
    number_of_text: HashMap<Arc<str>, u16, RandomState>,
    free: Vec<u16>,
    /// Whether a text did not fit so far.
    overflowed: bool,
}

#[derive(Debug)]
struct InternedText {
    text: Arc<str>,
    rows: u32,
}

impl Interner {
    /// A set with only the empty text, which is never removed. It takes at most `most` texts, and never more than 65,535.
    pub(in crate::stats) fn new(most: usize) -> Self {
        let empty: Arc<str> = "".into();
        Self {
            most: most.min(usize::from(OTHERS)),
            number_of_text: HashMap::from_iter([(Arc::clone(&empty), NONE)]),
            entries: vec![InternedText { text: empty, rows: 1 }],
            free: Vec::new(),
            overflowed: false,
        }
    }

    /// The number of a text; counts one more attempt with it. A new text gets a number if `room` is true and there is capacity.
    pub(in crate::stats) fn acquire(&mut self, text: &str, room: bool) -> u16 {
        let code = match self.number_of_text.get(text) {
            Some(code) => *code,
            None => self.insert(text, room),
        };
        if let Some(entry) = self.entries.get_mut(usize::from(code)).filter(|_| code != NONE) {
            entry.rows = entry.rows.saturating_add(1);
        }
        code
    }

    fn insert(&mut self, text: &str, room: bool) -> u16 {
        let free = if room { self.free.pop() } else { None };
        let next = u16::try_from(self.entries.len()).ok().filter(|_| room && self.entries.len() < self.most);
        let Some(code) = free.or(next) else {
            self.overflowed = true;
            return OTHERS;
        };
        let text: Arc<str> = text.into();
        self.number_of_text.insert(Arc::clone(&text), code);
        let entry = InternedText { text, rows: 0 };
        match self.entries.get_mut(usize::from(code)) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        code
    }

    /// Counts one attempt fewer with the text of this number, and removes a text without attempts.
    pub(in crate::stats) fn release(&mut self, code: u16) {
        let Some(entry) = self.entries.get_mut(usize::from(code)).filter(|_| code != NONE) else { return };
        entry.rows = entry.rows.saturating_sub(1);
        if entry.rows == 0 {
            self.number_of_text.remove(&entry.text);
            entry.text = "".into();
            self.free.push(code);
        }
    }

    /// The number of a text, if some attempt has it.
    pub(in crate::stats) fn find(&self, text: &str) -> Option<u16> {
        self.number_of_text.get(text).copied()
    }

    /// All texts, in the order of their numbers.
    pub(in crate::stats) fn texts(&self) -> Vec<Arc<str>> {
        self.entries.iter().map(|entry| Arc::clone(&entry.text)).collect()
    }

    /// Number of texts.
    pub(in crate::stats) fn len(&self) -> usize {
        self.number_of_text.len()
    }

    /// Whether a text did not fit so far, so that some attempts have [`OTHERS`].
    pub(in crate::stats) fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_lives_until_its_last_attempt() {
        let mut names = Interner::new(3);
        let [a, b] = ["a", "b"].map(|text| names.acquire(text, true));
        assert_eq!(names.acquire("a", true), a);
        names.release(a);
        assert_eq!((names.find("a"), names.find("b")), (Some(a), Some(b)));
        names.release(a);
        assert_eq!(names.find("a"), None);
        assert_eq!(names.acquire("c", true), a, "the number is free again");
        assert_eq!(&*names.texts()[usize::from(a)], "c");
    }

    #[test]
    fn texts_beyond_the_bound_are_one() {
        let mut names = Interner::new(3);
        let codes = ["", "a", "b", "c", "d", "a"].map(|text| names.acquire(text, true));
        assert_eq!(codes, [NONE, 1, 2, OTHERS, OTHERS, 1]);
        assert!(names.overflowed() && names.len() == 3);
        names.release(OTHERS);
        names.release(NONE);
        assert_eq!(names.find(""), Some(NONE));
    }
}
