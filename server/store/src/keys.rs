//! The keys of `FORMAT.md`: a kind, an attempt's id, 0x00, and a suffix that distinguishes the entries of one id.

use plimsoll_core::domain::AttemptId;

use super::errors::KeyText;

/// Ends the id in a key. Ids do not contain this byte, so the keys of one id are never mixed with those of
/// another.
const ID_END: u8 = 0;

/// Kind of an entry; the first byte of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyKind {
    /// An attempt that has not ended.
    Attempt = b'a',
    /// Samples that are not sealed yet.
    Fragment = b'f',
    /// Sealed samples.
    Block = b'b',
    /// A hook about the end of a job that is not applied to its attempt yet.
    Hook = b'h',
    /// The rename of a project that is being applied.
    Rename = b'm',
    /// The record of the numbers that were used as ticket ids.
    Numbers = b'n',
    /// Sizes of a CI job's pod.
    Pod = b'p',
    /// The numbers of a server upstream.
    UpstreamServer = b'r',
    /// Summary of an ended attempt.
    Summary = b's',
    /// A ticket that has not ended.
    Ticket = b't',
    /// A ticket that was taken upstream.
    UpstreamTicket = b'u',
    /// A verdict.
    Verdict = b'v',
}

impl KeyKind {
    /// All kinds.
    pub(super) const ALL: [Self; 12] = [
        Self::Attempt,
        Self::Fragment,
        Self::Block,
        Self::Hook,
        Self::Rename,
        Self::Numbers,
        Self::Pod,
        Self::UpstreamServer,
        Self::Summary,
        Self::Ticket,
        Self::UpstreamTicket,
        Self::Verdict,
    ];

    pub(super) fn of(key: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| key.first() == Some(&(*kind as u8)))
    }

    /// Whether entries of this kind are chunks of samples; the others are parts of records.
    pub(super) fn is_chunk(self) -> bool {
        matches!(self, Self::Fragment | Self::Block)
    }

    /// Number of key bytes after the byte that ends the id.
    fn tail_bytes(self) -> usize {
        match self {
            Self::Attempt
            | Self::Hook
            | Self::Rename
            | Self::Numbers
            | Self::Pod
            | Self::UpstreamServer
            | Self::Summary
            | Self::Ticket
            | Self::UpstreamTicket => 1,
            Self::Fragment | Self::Block => 8,
            Self::Verdict => 9,
        }
    }

    /// Prefix of all entries of this kind.
    pub fn prefix(self) -> Vec<u8> {
        vec![self as u8]
    }

    /// Prefix of all entries of this kind for `id`.
    pub fn prefix_of(self, id: &AttemptId) -> Vec<u8> {
        self.key_of(id.as_str())
    }

    /// Common prefix of the entries of this kind for an id of any sort.
    pub(super) fn key_of(self, id: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(id.len() + 11);
        key.push(self as u8);
        key.extend_from_slice(id.as_bytes());
        key.push(ID_END);
        key
    }
}

/// Key of a chunk of samples. `start` is its first sequence number, lost numbers included.
pub(super) fn chunk(kind: KeyKind, id: &AttemptId, start: u64) -> Vec<u8> {
    let mut key = kind.prefix_of(id);
    key.extend_from_slice(&start.to_be_bytes());
    key
}

/// Takes the place of an id in the key of the ticket numbers.
pub(super) const NUMBERS_PART: &str = "tickets";

/// Takes the place of an id in the key of a rename.
pub(super) const RENAME_PART: &str = "project";

/// The first sequence number of a chunk, from the end of its key.
pub(super) fn start_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

/// Common prefix of the parts of a verdict's record.
pub(super) fn verdict(id: &AttemptId, fingerprint: u64) -> Vec<u8> {
    let mut key = KeyKind::Verdict.prefix_of(id);
    key.extend_from_slice(&fingerprint.to_be_bytes());
    key
}

pub(super) fn id_of(key: &[u8]) -> Option<AttemptId> {
    let id = key.get(1..)?.split(|byte| *byte == ID_END).next()?;
    AttemptId::parse(std::str::from_utf8(id).ok()?).ok()
}

/// Whether a key has a known kind, a valid id and the right length.
pub(super) fn is_well_formed(key: &[u8]) -> bool {
    let Some((kind, id)) = KeyKind::of(key).zip(id_of(key)) else { return false };
    key.len() == 1 + id.as_str().len() + 1 + kind.tail_bytes()
        && key.get(1 + id.as_str().len()) == Some(&ID_END)
}

pub(super) fn text(key: &[u8]) -> KeyText {
    KeyText(key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_reads_what_belongs_to_another_one() {
        let (short, long) = (AttemptId::parse("job").unwrap(), AttemptId::parse("job-1").unwrap());
        assert!(!chunk(KeyKind::Fragment, &long, 1).starts_with(&KeyKind::Fragment.prefix_of(&short)));
    }

    #[test]
    fn keys_sort_numerically_and_decode_to_their_parts() {
        let id = AttemptId::parse("gitlab.com:1/2").unwrap();
        let keys = [1, 255, 256, u64::MAX].map(|start| chunk(KeyKind::Block, &id, start));
        assert!(keys.is_sorted());
        assert_eq!(keys.clone().map(|key| start_of(&key)), [Some(1), Some(255), Some(256), Some(u64::MAX)]);
        assert_eq!(id_of(&keys[3]), Some(id));
        assert_eq!((id_of(b""), id_of(b"f"), start_of(b"f")), (None, None, None));
    }

    #[test]
    fn truncated_or_extended_keys_are_not_well_formed() {
        let id = AttemptId::parse("job").unwrap();
        for key in [chunk(KeyKind::Block, &id, 0), [verdict(&id, 0), vec![0]].concat(), b"sjob\0\0".to_vec()]
        {
            assert!(is_well_formed(&key));
            assert!(!is_well_formed(&key[..key.len() - 1]));
            assert!(!is_well_formed(&[key.as_slice(), b"x"].concat()));
        }
        assert!(!is_well_formed(b"i") && !is_well_formed(b"s\0\0") && !is_well_formed(b"xjob\0\0"));
    }
}
