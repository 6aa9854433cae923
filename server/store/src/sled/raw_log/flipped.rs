//! Finds single flipped bits in the log: the checksum of a message, or of a segment's header, shows which bit
//! is wrong.
//!
//! Each single bit changes a CRC-32 in a different way. If no valid message starts where one should, each bit
//! of its header is tried (a wrong bit there may change the length), and then the one bit of its body that
//! explains the checksum. A correction is accepted only if the result is a valid message of this segment: its
//! checksum is right, its form is known, and it fits into the space up to the next message.
//!
//! Two wrong bits in a message of up to 11,450 bytes are never mistaken for one: up to 91,607 bits this CRC has
//! a Hamming distance of 4 (Koopman, "32-bit cyclic redundancy codes for Internet applications", 2002). Other
//! damage of a message is mistaken for a single bit with a probability of 2^-32 for each of its bits; a record
//! also has a checksum of its own.

use std::{fs::OpenOptions, io, ops::Range, os::unix::fs::FileExt as _, path::Path};

use super::{
    message::{LogMessage, MessageKind, SEGMENT_HEADER_BYTES, difference_at, message_at, segment_header},
    page::{PageChange, PageNode},
    walk::{WalkStep, walk},
};

/// The polynomial of CRC-32 (IEEE 802.3), lowest bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// Most bytes of a message before its body: checksum, kind, and three numbers of up to 9 bytes.
const LONGEST_HEADER: usize = 4 + 1 + 3 * 9;

/// A byte of the log with a wrong bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlippedBit {
    /// Position of the byte in the file.
    pub(crate) at: u64,
    /// The byte's value in the file; the next field is the right value.
    pub(crate) found_byte: u8,
    pub(crate) right_byte: u8,
}

impl FlippedBit {
    /// The wrong bit with the number `bit` (0 is the lowest) in `found_byte`, which is in the file at the position `at`.
    fn found_at(at: usize, bit: usize, found_byte: u8) -> Self {
        Self { at: at as u64, found_byte, right_byte: found_byte ^ 1 << bit }
    }

    /// The same bit, with its position in the file: `at` is the position of the segment in which it was found.
    pub(super) fn in_segment(self, at: u64) -> Self {
        Self { at: at + self.at, ..self }
    }

    /// Corrects the byte in `bytes`, a buffer with the content of the file from the position `at` on.
    pub(super) fn put_right_within(self, at: u64, bytes: &mut [u8]) {
        let place = self.at.checked_sub(at).and_then(|place| usize::try_from(place).ok());
        if let Some(byte) = place.and_then(|place| bytes.get_mut(place)) {
            *byte = self.right_byte;
        }
    }
}

/// Corrects these bits in the log file, and syncs it.
/// Errors: the log cannot be written.
pub(crate) fn put_right(log: &Path, flipped: &[FlippedBit]) -> io::Result<()> {
    replace_bytes(log, flipped.iter().map(|bit| (bit.at, bit.found_byte, bit.right_byte)))
}

/// Reverses corrections of the log file: writes the wrong bits back, except where the byte has changed since.
/// Errors: the log cannot be written.
pub(crate) fn undo(log: &Path, flipped: &[FlippedBit]) -> io::Result<()> {
    replace_bytes(log, flipped.iter().map(|bit| (bit.at, bit.right_byte, bit.found_byte)))
}

fn replace_bytes(log: &Path, bytes: impl ExactSizeIterator<Item = (u64, u8, u8)>) -> io::Result<()> {
    if bytes.len() == 0 {
        return Ok(());
    }
    let file = OpenOptions::new().read(true).write(true).open(log)?;
    for (at, old, new) in bytes {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        if byte == [old] {
            file.write_all_at(&[new], at)?;
        }
    }
    file.sync_all()
}

/// Corrects a wrong bit in the header of a segment; returns the bit with its position in the segment.
pub(super) fn put_header_right(bytes: &mut [u8]) -> Option<FlippedBit> {
    flip_one(bytes, 0..SEGMENT_HEADER_BYTES, |bytes| segment_header(bytes).is_some())
}

/// Corrects one wrong bit in each damaged message of the segment; returns the bits with their positions in the
/// segment.
pub(super) fn put_messages_right(bytes: &mut [u8], number: u64) -> Vec<FlippedBit> {
    let (mut flipped, mut hopeless) = (Vec::new(), 0);
    loop {
        let mut gaps = Vec::new();
        walk(bytes, number, |step| match step {
            WalkStep::Gap { from, to, inside, .. } => gaps.push(from..if inside { to } else { bytes.len() }),
            WalkStep::Message(..) => {}
        });
        // look for gaps again after each correction: the message after a corrected one may be damaged too
        let Some(gap) = gaps.into_iter().nth(hopeless) else { return flipped };
        match put_message_right(bytes, &gap, number) {
            Some(bit) => flipped.push(bit),
            None => hopeless += 1,
        }
    }
}

fn put_message_right(bytes: &mut [u8], gap: &Range<usize>, number: u64) -> Option<FlippedBit> {
    let is_right = |bytes: &[u8]| {
        let message = message_at(bytes, gap.start);
        message
            .is_some_and(|found| found.segment == number && found.end() <= gap.end && has_known_form(&found))
    };
    let header = gap.start..gap.end.min(gap.start + LONGEST_HEADER);
    if let Some(bit) = flip_one(bytes, header, is_right) {
        return Some(bit);
    }
    let (difference, body) = difference_at(bytes, gap.start, number)?;
    // the checksum is computed over the body first, and then over the header without the checksum
    let behind = (body.start - gap.start).checked_sub(4)?;
    let place = bit_from_end(difference, (behind + body.len()) * 8)?;
    let (byte, bit) = ((place / 8).checked_sub(behind)?, 7 - place % 8);
    let at = body.end.checked_sub(byte + 1)?;
    flip_to(bytes, at, bit, is_right)
}

/// Finds the one bit in `range` for which `is_right` returns true after it is flipped; leaves it flipped.
fn flip_one(bytes: &mut [u8], range: Range<usize>, is_right: impl Fn(&[u8]) -> bool) -> Option<FlippedBit> {
    let mut bits = range.flat_map(|at| (0..8).map(move |bit| (at, bit)));
    bits.find_map(|(at, bit)| flip_to(bytes, at, bit, &is_right))
}

/// Flips one bit. If `is_right` then returns false, the bit is flipped back.
fn flip_to(bytes: &mut [u8], at: usize, bit: usize, is_right: impl Fn(&[u8]) -> bool) -> Option<FlippedBit> {
    let found = *bytes.get(at)?;
    flip(bytes, at, bit);
    if is_right(bytes) {
        return Some(FlippedBit::found_at(at, bit, found));
    }
    flip(bytes, at, bit);
    None
}

fn flip(bytes: &mut [u8], at: usize, bit: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

/// Finds the bit that causes this difference between two checksums, among the last `bits` bits; the last bit
/// has index 0.
fn bit_from_end(difference: u32, bits: usize) -> Option<usize> {
    let mut register = POLYNOMIAL;
    (0..bits).find(|_| {
        let made = register;
        register = (made >> 1) ^ if made & 1 == 1 { POLYNOMIAL } else { 0 };
        made == difference
    })
}

fn has_known_form(message: &LogMessage<'_>) -> bool {
    match message.kind {
        MessageKind::Node => PageNode::read(message.body).is_some(),
        MessageKind::Link => PageChange::read(message.body).is_some(),
        MessageKind::Batch => message.body.len() == 8,
        MessageKind::Elsewhere => false,
        MessageKind::Canceled | MessageKind::Cap | MessageKind::Free | MessageKind::Internal => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of segment 0 about page 7: a change that sets a key of one byte.
    fn message(value: &[u8]) -> Vec<u8> {
        let body = [&[0, 1, b'k', u8::try_from(value.len()).unwrap()], value].concat();
        let header = [10, u8::try_from(body.len()).unwrap(), 0, 7];
        let crc = crc32fast::hash(&[&body[..], &header].concat()) ^ u32::MAX;
        [&crc.to_le_bytes()[..], &header, &body].concat()
    }

    /// The first segment of a log with three messages, and where the second one begins and ends.
    fn segment() -> (Vec<u8>, Range<usize>) {
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
        bytes[4..12].copy_from_slice(&i64::MAX.to_le_bytes());
        bytes[12..].copy_from_slice(&i64::MAX.to_le_bytes());
        let crc = crc32fast::hash(&bytes[4..]) ^ u32::MAX;
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes.extend(message(b"first"));
        let start = bytes.len();
        bytes.extend(message(&[1; 200]));
        let second = start..bytes.len();
        bytes.extend(message(b"last"));
        bytes.resize(2048, 0);
        (bytes, second)
    }

    #[test]
    fn one_flipped_bit_anywhere_in_a_message_or_a_header_is_put_right() {
        let (whole, second) = segment();
        assert!(segment_header(&whole).is_some());
        let mut bytes = whole.clone();
        assert_eq!(put_messages_right(&mut bytes, 0), []);
        for (at, bit) in (0..second.end).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            flip(&mut bytes, at, bit);
            let put = if at < SEGMENT_HEADER_BYTES {
                put_header_right(&mut bytes).into_iter().collect()
            } else {
                put_messages_right(&mut bytes, 0)
            };
            assert!(bytes == whole, "byte {at}, bit {bit}");
            assert_eq!(put, [FlippedBit::found_at(at, bit, whole[at] ^ 1 << bit)]);
        }
    }

    #[test]
    fn a_flipped_bit_in_each_of_two_messages_is_put_right_and_two_in_one_message_are_left() {
        let (whole, second) = segment();
        let mut bytes = whole.clone();
        bytes[second.start - 1] ^= 1;
        bytes[second.start + 4] ^= 8;
        assert_eq!(put_messages_right(&mut bytes, 0).len(), 2);
        assert!(bytes == whole);
        for (first, other) in [(6, 7), (4, 100), (100, 101), (0, 200)] {
            let mut damaged = whole.clone();
            damaged[second.start + first] ^= 1;
            damaged[second.start + other] ^= 2;
            let before = damaged.clone();
            assert_eq!(put_messages_right(&mut damaged, 0), [], "{first}, {other}");
            assert!(damaged == before);
        }
    }

    #[test]
    fn bits_are_put_right_in_the_file_and_flipped_again_where_nothing_was_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1, 2, 3]).unwrap();
        let flipped = [FlippedBit::found_at(0, 7, 1), FlippedBit::found_at(2, 0, 3)];
        put_right(file.path(), &flipped).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), [129, 2, 2]);
        std::fs::write(file.path(), [129, 2, 9]).unwrap();
        undo(file.path(), &flipped).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), [1, 2, 9]);
    }
}
