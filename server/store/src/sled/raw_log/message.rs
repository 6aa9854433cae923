//! Reads one segment of the log and its messages. Every bound is checked, and a message counts only if its
//! checksum is right.

use std::ops::Range;

use super::page::{PageChange, PageNode};

/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = 512 << 10;
/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER_BYTES: usize = 20;
/// No message starts in this many last bytes of a segment.
const RED_ZONE_BYTES: usize = 32;
/// Position of the kind in a message, behind its checksum.
const KIND_AT: usize = 4;
/// The kind of a change of a page.
const LINK: u8 = 10;
/// Longest body of a message: sled puts longer content into a file of its own.
const MAX_BODY: usize = SEGMENT_BYTES / 4;

/// Highest number of a segment: sled's log positions have 63 bits.
const MAX_SEGMENTS: u64 = (1 << 63) / SEGMENT_BYTES as u64 - 1;

/// Content of a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Number of the segment since the log was created.
    pub(super) number: u64,
    /// All messages before this log position were on disk when the header was written.
    pub(super) stable: u64,
}

/// Kind of a message in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A message that was canceled before it was complete.
    Canceled,
    /// Padding at the end of a segment.
    Cap,
    /// The start of a batch; contains the log position of the last byte of the batch.
    Batch,
    /// The removal of a page from the tree.
    Free,
    /// A whole page.
    Node,
    /// A change of a page.
    Link,
    /// sled's counter or its table of trees: contains no entries of this store.
    Internal,
    /// A page or a change that is stored in a separate file. This server never writes one.
    Elsewhere,
}

/// A message with a right checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogMessage<'a> {
    pub(super) kind: MessageKind,
    /// Number of the segment for which the message was written.
    pub(super) segment: u64,
    /// Number of the page that the message is about.
    pub(super) page: u64,
    pub(super) body: &'a [u8],
    /// Start of the body in the segment.
    pub(super) body_at: usize,
}

impl LogMessage<'_> {
    /// Start of the next message in the segment.
    pub(super) fn end(&self) -> usize {
        self.body_at + self.body.len()
    }
}

/// Parses the header at the start of `bytes`; `None` if its checksum is wrong.
pub(super) fn segment_header(bytes: &[u8]) -> Option<SegmentHeader> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let fields = rest.get(..16)?;
    if crc32fast::hash(fields) != u32::from_le_bytes(*crc) ^ u32::MAX {
        return None;
    }
    let (lsn, rest) = fields.split_first_chunk::<8>()?;
    let stable = rest.first_chunk::<8>()?;
    let plain = |bytes: [u8; 8]| u64::try_from(i64::from_le_bytes(bytes) ^ i64::MAX).ok();
    let lsn = plain(*lsn).filter(|lsn| lsn.is_multiple_of(SEGMENT_BYTES as u64))?;
    // the first segment has -1 here, because no message was on disk before it
    Some(SegmentHeader { number: lsn / SEGMENT_BYTES as u64, stable: plain(*stable).unwrap_or(0) })
}

/// Parses the message at this position of a segment; `None` if its checksum is wrong.
pub(super) fn message_at(segment: &[u8], at: usize) -> Option<LogMessage<'_>> {
    let header = header_at(segment, at)?;
    let body = segment.get(header.body())?;
    let MessageHeader { kind, number, page, body_at, .. } = header;
    header.is_right(segment, at)?.then_some(LogMessage { kind, segment: number, page, body, body_at })
}

/// The pages that lost messages may have written as a whole, so that their older content does not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewrittenPages {
    /// Changes of pages were lost, and no page.
    None,
    One(u64),
    All,
}

/// The pages that the lost bytes `gap` of segment `number` may have written. If they were one message, its header shows its page: its length
/// must be right, or its segment number and the form of its body, so that a wrong byte in the header seldom costs other pages.
pub(super) fn rewritten_by(segment: &[u8], gap: Range<usize>, number: u64) -> RewrittenPages {
    let header = || {
        let mut cursor = LogCursor { bytes: segment, position: gap.start.checked_add(KIND_AT)? };
        let (kind, len) = (cursor.byte()?, usize::try_from(cursor.varint()?).ok()?);
        let (found, page) = (cursor.varint()?, cursor.varint()?);
        let is_length = cursor.position.checked_add(len) == Some(gap.end);
        let body = segment.get(cursor.position..gap.end)?;
        let is_change = PageChange::read(body).is_some();
        let is_whole = found == number && (is_change || PageNode::read(body).is_some());
        (is_length || is_whole).then_some((is_change && kind == LINK, page))
    };
    match header() {
        Some((true, _)) => RewrittenPages::None,
        Some((false, page)) => RewrittenPages::One(page),
        None => RewrittenPages::All,
    }
}

/// Whether a message may start at this position of a segment.
pub(super) fn may_begin(at: usize) -> bool {
    (SEGMENT_HEADER_BYTES..=SEGMENT_BYTES - RED_ZONE_BYTES).contains(&at)
}

struct MessageHeader {
    checksum: u32,
    kind: MessageKind,
    len: usize,
    /// Number of the segment.
    number: u64,
    /// Id of sled's page that the message is about.
    page: u64,
    body_at: usize,
}

impl MessageHeader {
    fn body(&self) -> Range<usize> {
        self.body_at..self.body_at.saturating_add(self.len)
    }

    /// Whether the checksum of the message at this position is right.
    fn is_right(&self, segment: &[u8], at: usize) -> Option<bool> {
        let mut crc = crc32fast::Hasher::new();
        crc.update(segment.get(self.body())?);
        crc.update(segment.get(at + KIND_AT..self.body_at)?);
        Some(crc.finalize() ^ u32::MAX == self.checksum)
    }
}

fn header_at(segment: &[u8], at: usize) -> Option<MessageHeader> {
    if !may_begin(at) {
        return None;
    }
    let mut cursor = LogCursor { bytes: segment, position: at };
    let crc = u32::from_le_bytes(*cursor.take(KIND_AT)?.first_chunk()?);
    let kind = match cursor.byte()? {
        1 => MessageKind::Canceled,
        2 => MessageKind::Cap,
        3 => MessageKind::Batch,
        4 => MessageKind::Free,
        5 | 6 => MessageKind::Internal,
        8 => MessageKind::Node,
        LINK => MessageKind::Link,
        7 | 9 | 11 => MessageKind::Elsewhere,
        _ => return None,
    };
    let len = usize::try_from(cursor.varint()?).ok()?;
    let bound =
        if matches!(kind, MessageKind::Cap | MessageKind::Canceled) { SEGMENT_BYTES } else { MAX_BODY };
    let (number, page) = (cursor.varint()?, cursor.varint()?);
    let sound = len <= bound && number <= MAX_SEGMENTS;
    sound.then_some(MessageHeader { checksum: crc, kind, len, number, page, body_at: cursor.position })
}

/// Reads numbers and slices from `bytes`, starting at the position `at`.
#[derive(Debug)]
pub(super) struct LogCursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) position: usize,
}

impl<'a> LogCursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(count)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// sled's own encoding of a number, which is not LEB128.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        Some(match first {
            0..=240 => u64::from(first),
            241..=248 => 240 + 256 * (u64::from(first) - 241) + u64::from(self.byte()?),
            249 => 2288 + 256 * u64::from(self.byte()?) + u64::from(self.byte()?),
            250..=255 => {
                let bytes = self.take(usize::from(first) - 247)?;
                bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        })
    }

    /// Reads a length, and then that many bytes.
    pub(super) fn take_slice(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_each_length_decode_unless_truncated() {
        let read = |bytes: &[u8]| LogCursor { bytes, position: 0 }.varint();
        let long = [255, 8, 7, 6, 5, 4, 3, 2, 1];
        let examples: [(&[u8], u64); 6] = [
            (&[240], 240),
            (&[241, 1], 241),
            (&[248, 255], 2287),
            (&[249, 0, 1], 2289),
            (&[250, 0, 0, 2], 2 << 16),
            (&long, 0x0102_0304_0506_0708),
        ];
        for (bytes, number) in examples {
            assert_eq!(read(bytes), Some(number));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn no_bytes_make_it_read_beyond_their_end() {
        let noise: Vec<u8> =
            (0..4096_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect();
        assert!((0..noise.len()).all(|at| message_at(&noise, at).is_none()));
        assert_eq!(segment_header(&noise), None);
        assert_eq!(segment_header(&noise[..7]), None);
    }
}
