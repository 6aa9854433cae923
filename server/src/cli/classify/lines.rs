//! The lines of a file, plain or gzip, one at a time and each of bounded length.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

/// Longest line, bytes: a whole log of 100 MB fits, also when every second byte of it is escaped.
const LONGEST: usize = 256 << 20;

/// One line.
#[derive(Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Its bytes, or why there are none.
    pub(super) text: Result<Vec<u8>, String>,
}

/// The lines of a file that are not empty.
pub(super) struct Lines {
    from: Box<dyn BufRead>,
    number: u64,
    longest: usize,
}

impl Lines {
    /// Unpacks `file` if it is gzip.
    pub(super) fn open(file: Box<dyn Read>) -> io::Result<Self> {
        let mut packed = BufReader::with_capacity(64 << 10, file);
        // the two bytes that every gzip begins with (RFC 1952, 2.3.1)
        let gzip = packed.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let from: Box<dyn BufRead> = if gzip {
            Box::new(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(packed)))
        } else {
            Box::new(packed)
        };
        Ok(Self { from, number: 0, longest: LONGEST })
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        let (mut text, mut too_long, mut any) = (Vec::new(), false, false);
        loop {
            let part = self.from.fill_buf()?;
            if part.is_empty() {
                break;
            }
            any = true;
            let (end, taken) = match part.iter().position(|byte| *byte == b'\n') {
                Some(at) => (true, part.get(..at).unwrap_or_default()),
                None => (false, part),
            };
            too_long = too_long || text.len().saturating_add(taken.len()) > self.longest;
            if too_long {
                text = Vec::new();
            } else {
                text.extend_from_slice(taken);
            }
            let used = taken.len() + usize::from(end);
            self.from.consume(used);
            if end {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        let why = format!("is longer than {} MiB; the end of the log is enough", self.longest >> 20);
        let text = if too_long { Err(why) } else { Ok(text) };
        Ok(Some(Line { number: self.number, text }))
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(Line { text: Ok(text), .. }) if text.trim_ascii().is_empty() => {}
                line => return Some(line),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], longest: usize) -> Vec<Line> {
        let mut lines = Lines::open(Box::new(io::Cursor::new(bytes.to_vec()))).unwrap();
        lines.longest = longest;
        lines.map(Result::unwrap).collect()
    }

    #[test]
    fn plain_and_packed_lines_are_the_same() {
        let plain = b"one\n\n  \ntwo\nthree".to_vec();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, &plain).unwrap();
        for bytes in [plain, packed.finish().unwrap()] {
            let read = lines(&bytes, 100);
            let texts: Vec<(u64, Vec<u8>)> =
                read.into_iter().map(|line| (line.number, line.text.unwrap())).collect();
            assert_eq!(texts, [(1, b"one".to_vec()), (4, b"two".to_vec()), (5, b"three".to_vec())]);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_the_next_one_is_read() {
        let read = lines(b"12345\n1234\n123456789\nok\n", 4);
        let good: Vec<bool> = read.iter().map(|line| line.text.is_ok()).collect();
        assert_eq!(good, [false, true, false, true]);
    }
}
