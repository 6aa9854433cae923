//! Reads and writes the primitives of records and chunks: varints, zigzag, crc. No input causes a panic.

/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// What is wrong with stored bytes, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub(super) String);

impl Damage {
    /// An error with the description `what`.
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// Appends the checksum of `bytes` to them.
pub(super) fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

/// Checks the checksum; returns the codec byte and the body.
pub(super) fn checked(bytes: &[u8]) -> Result<(u8, &[u8]), Damage> {
    let too_short = || Damage::new(format!("{} bytes are too few", bytes.len()));
    let (content, crc) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(too_short)?;
    let (codec, body) = content.split_first().ok_or_else(too_short)?;
    let (stored, computed) = (u32::from_be_bytes(*crc), crc32fast::hash(content));
    if stored != computed {
        return Err(Damage::new(format!("checksum is {computed:08x}, {stored:08x} was stored")));
    }
    Ok((*codec, body))
}

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while let Some(low) = low_bits(value).filter(|_| value >= 0x80) {
        out.push(low | 0x80);
        value >>= 7;
    }
    out.extend(low_bits(value));
}

fn low_bits(value: u64) -> Option<u8> {
    u8::try_from(value & 0x7f).ok()
}

/// Maps small numbers of either sign to small unsigned numbers.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Reverses [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Reads stored bytes from the front; every read checks that enough bytes are left.
#[derive(Debug)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| Damage::new("ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8, Damage> {
        let (first, rest) = self.0.split_first().ok_or_else(|| Damage::new("ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next varint.
    pub(super) fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage::new("a varint has more than 64 bits"))
    }

    /// The next varint as a count; more than `limit` of `what` are refused as damage.
    pub(super) fn count(&mut self, what: &str, limit: usize) -> Result<usize, Damage> {
        let value = self.varint()?;
        let count = usize::try_from(value).ok().filter(|count| *count <= limit);
        count.ok_or_else(|| Damage::new(format!("{value} {what}, at most {limit} are possible")))
    }

    /// Checks that all bytes were read.
    pub(super) fn end(&self) -> Result<(), Damage> {
        if self.0.is_empty() { Ok(()) } else { Err(Damage::new(format!("{} bytes too many", self.0.len()))) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(value in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = ByteReader(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.end(), Ok(()));
            prop_assert_eq!(zigzag(unzigzag(value)), value);
        }
    }

    #[test]
    fn a_varint_that_is_too_long_is_damage() {
        assert!(ByteReader(&[0xff; 11]).varint().is_err());
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(ByteReader(&largest).varint(), Ok(u64::MAX));
        largest[9] = 2;
        assert!(ByteReader(&largest).varint().is_err());
    }
}
