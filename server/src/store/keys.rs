//! The keys of `FORMAT.md`: a kind, an attempt's id, 0x00, and what tells the entries of one id apart.

use super::errors::KeyText;
use crate::domain::{AttemptId, TicketId};

/// Ends an id. Ids hold no such byte, so no id's keys are among another one's.
const END: u8 = 0;

/// What an entry is; the first byte of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An attempt that has not ended.
    Attempt = b'a',
    /// Samples that arrived and are not sealed yet.
    Fragment = b'f',
    /// Sealed samples.
    Block = b'b',
    /// What is kept of an ended attempt.
    Summary = b's',
    /// A ticket that has not ended.
    Ticket = b't',
    /// How far work is that an upgrade does once.
    Upgrade = b'u',
    /// An answer that was given.
    Verdict = b'v',
}

impl Kind {
    /// Prefix of all entries of this kind.
    pub fn prefix(self) -> Vec<u8> {
        vec![self as u8]
    }

    /// Prefix of all entries of this kind that belong to `id`.
    pub fn prefix_of(self, id: &AttemptId) -> Vec<u8> {
        let mut key = Vec::with_capacity(id.as_str().len() + 11);
        key.push(self as u8);
        key.extend_from_slice(id.as_str().as_bytes());
        key.push(END);
        key
    }
}

/// Key of a chunk of samples whose first number, lost ones included, is `start`.
pub(super) fn chunk(kind: Kind, id: &AttemptId, start: u64) -> Vec<u8> {
    let mut key = kind.prefix_of(id);
    key.extend_from_slice(&start.to_be_bytes());
    key
}

/// What the parts of a ticket's record have in common.
pub(super) fn ticket(id: &TicketId) -> Vec<u8> {
    [&[Kind::Ticket as u8], id.as_str().as_bytes(), &[END]].concat()
}

/// What the parts of the record on one kind of work of an upgrade have in common.
pub(super) fn upgrade(name: &str) -> Vec<u8> {
    [&[Kind::Upgrade as u8], name.as_bytes(), &[END]].concat()
}

/// The number that a chunk's key ends with.
pub(super) fn start_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

/// What the parts of a verdict's record have in common.
pub(super) fn verdict(id: &AttemptId, fingerprint: u64) -> Vec<u8> {
    let mut key = Kind::Verdict.prefix_of(id);
    key.extend_from_slice(&fingerprint.to_be_bytes());
    key
}

/// The id in a key of the kinds above.
pub(super) fn id_of(key: &[u8]) -> Option<AttemptId> {
    let id = key.get(1..)?.split(|byte| *byte == END).next()?;
    AttemptId::parse(std::str::from_utf8(id).ok()?).ok()
}

/// A key for people.
pub(super) fn text(key: &[u8]) -> KeyText {
    KeyText(key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_reads_what_belongs_to_another_one() {
        let (short, long) = (AttemptId::parse("job").unwrap(), AttemptId::parse("job-1").unwrap());
        assert!(!chunk(Kind::Fragment, &long, 1).starts_with(&Kind::Fragment.prefix_of(&short)));
    }

    #[test]
    fn keys_sort_by_number_and_give_back_what_they_hold() {
        let id = AttemptId::parse("gitlab.com:1/2").unwrap();
        let keys = [1, 255, 256, u64::MAX].map(|start| chunk(Kind::Block, &id, start));
        assert!(keys.is_sorted());
        assert_eq!(keys.clone().map(|key| start_of(&key)), [Some(1), Some(255), Some(256), Some(u64::MAX)]);
        assert_eq!(id_of(&keys[3]), Some(id));
        assert_eq!((id_of(b""), id_of(b"f"), start_of(b"f")), (None, None, None));
    }
}
