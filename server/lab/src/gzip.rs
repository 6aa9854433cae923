//! Unpacks gzip files as gzip itself does: a file may have several members, and zeros after the last one, which
//! tapes and block devices add.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The two bytes that every gzip begins with (RFC 1952, section 2.3.1).
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Unpacks all members of a gzip file, one after the other.
#[derive(Debug)]
pub(crate) struct GzipMembers<R>(Option<GzDecoder<R>>);

impl<R: BufRead> GzipMembers<R> {
    pub(crate) fn new(packed: R) -> Self {
        Self(Some(GzDecoder::new(packed)))
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut rest) = self.0.take().map(GzDecoder::into_inner) else { break };
            if !ends_in_zeros(&mut rest)? {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Skips zeros; returns whether the file ends after them.
fn ends_in_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        let (all, zeros) = (bytes.len(), bytes.iter().take_while(|byte| **byte == 0).count());
        packed.consume(zeros);
        if all == 0 || zeros < all {
            return Ok(all == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(parts: &[&[u8]]) -> io::Result<String> {
        let packed = BufReader::with_capacity(7, io::Cursor::new(parts.concat()));
        io::read_to_string(GzipMembers::new(packed))
    }

    #[test]
    fn members_are_read_one_behind_the_other_and_zeros_behind_them_are_no_damage() {
        let (one, two) = (packed("one "), packed("two"));
        let zeros = [0; 1000];
        assert_eq!(unpacked(&[&one]).unwrap(), "one ");
        assert_eq!(unpacked(&[&one, &two]).unwrap(), "one two");
        assert_eq!(unpacked(&[&one, &two, &zeros]).unwrap(), "one two");
        assert_eq!(unpacked(&[&one, &zeros, &two]).unwrap(), "one two");
        assert!(unpacked(&[&one, &zeros, b"x"]).is_err(), "what is no gzip is an error");
        assert!(unpacked(&[one.get(..one.len() / 2).unwrap()]).is_err(), "a file that is cut short");
    }
}
