//! One line of JSON as it is read, with its long texts cut down to their ends: whatever a line holds, a few hundred KiB of it
//! are held. Bytes that are no UTF-8 are replaced.

use std::io::{self, BufRead, Read};

/// Longest line, bytes: a whole log of 100 MB fits, also when every second byte of it is escaped.
const LONGEST_LINE: u64 = 256 << 20;

/// A reader of one line.
pub(super) struct ShorteningReader<'r> {
    from: &'r mut dyn BufRead,
    /// Bytes of a text that are kept at least; twice as many are at most.
    keep: usize,
    longest: u64,
    /// Bytes of the line that were read.
    read: u64,
    ended: bool,
    text: Option<Text>,
    ready: Vec<u8>,
    /// Bytes of `ready` that were handed out.
    given: usize,
}

/// A text that is being read: its end, in two pieces, so that cutting it costs nothing. Pieces end where no escape does.
#[derive(Default)]
struct Text {
    before: Vec<u8>,
    last: Vec<u8>,
    escape: Escape,
}

/// Where in an escape a text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After the backslash.
    Begun,
    /// This many digits of `\uXXXX` are missing, of half a pair or not.
    Digits { missing: u8, half: bool },
}

impl<'r> ShorteningReader<'r> {
    /// The next line of `from`, its texts cut to between `keep` and twice as many bytes.
    pub(super) fn new(from: &'r mut dyn BufRead, keep: usize) -> Self {
        let (ready, text) = (Vec::new(), None);
        Self { from, keep, longest: LONGEST_LINE, read: 0, ended: false, text, ready, given: 0 }
    }

    #[cfg(test)]
    pub(super) fn at_most(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// The first byte that is no white space, which is not taken; `None` if there is none.
    ///
    /// # Errors
    /// The line cannot be read.
    pub(super) fn first(&mut self) -> io::Result<Option<u8>> {
        loop {
            let rest = self.ready.get(self.given..).unwrap_or_default();
            // a mark of the byte order is white space, too
            let blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
            if let Some(at) = rest.iter().position(|byte| !blank(byte)) {
                self.given += at;
                return Ok(self.ready.get(self.given).copied());
            }
            self.given = self.ready.len();
            if self.ended {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Reads the line to its end and forgets it; says what is wrong with its length.
    ///
    /// # Errors
    /// The line cannot be read.
    pub(super) fn skip(mut self) -> io::Result<Result<(), String>> {
        while !self.ended {
            let part = self.from.fill_buf()?;
            let (taken, end) = line_of(part);
            let used = taken.len() + usize::from(end);
            self.ended = end || part.is_empty();
            self.read = self.read.saturating_add(taken.len() as u64);
            self.from.consume(used);
        }
        let too_long = self.read > self.longest;
        let why = || format!("is longer than {} MiB; the end of the log is enough", self.longest >> 20);
        Ok(if too_long { Err(why()) } else { Ok(()) })
    }

    /// Reads a part of the line, and makes ready what of it is no text that goes on.
    fn fill(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.given = 0;
        let part = self.from.fill_buf()?;
        let (mut line, end) = line_of(part);
        let used = line.len() + usize::from(end);
        let read = self.read.saturating_add(line.len() as u64);
        if read > self.longest {
            // the rest is skipped, and counted there
            return Err(io::Error::other("too long"));
        }
        (self.read, self.ended) = (read, end || part.is_empty());
        while !line.is_empty() {
            let Some(text) = &mut self.text else {
                let to = line.iter().position(|byte| *byte == b'"').map_or(line.len(), |at| at + 1);
                let (outside, rest) = line.split_at(to);
                self.ready.extend_from_slice(outside);
                self.text = outside.ends_with(b"\"").then(Text::default);
                line = rest;
                continue;
            };
            let (taken, closed) = text.take(line, self.keep);
            line = line.get(taken..).unwrap_or_default();
            if closed {
                self.ready.extend_from_slice(&text.end());
                self.text = None;
            }
        }
        self.from.consume(used);
        if self.ended
            && let Some(text) = self.text.take()
        {
            self.ready.extend_from_slice(&text.end());
        }
        Ok(())
    }
}

/// The part of the bytes that is of this line, and whether the line ends there.
fn line_of(part: &[u8]) -> (&[u8], bool) {
    match memchr::memchr(b'\n', part) {
        Some(at) => (part.get(..at).unwrap_or_default(), true),
        None => (part, false),
    }
}

impl Text {
    /// Takes bytes up to the end of the text; how many, and whether that end was reached. The closing quote is taken, too.
    fn take(&mut self, line: &[u8], keep: usize) -> (usize, bool) {
        let Some(first) = line.first().copied() else { return (0, false) };
        let taken = match self.escape {
            Escape::None => memchr::memchr2(b'"', b'\\', line).unwrap_or(line.len()).max(1),
            Escape::Begun | Escape::Digits { .. } => 1,
        };
        self.last.extend_from_slice(line.get(..taken).unwrap_or_default());
        match (self.escape, first) {
            (Escape::None, b'"') => return (1, true),
            (Escape::None, b'\\') => self.escape = Escape::Begun,
            (Escape::None, _) => self.cut(keep),
            (Escape::Begun, b'u') => self.escape = Escape::Digits { missing: 4, half: false },
            (Escape::Begun, _) => {
                self.escape = Escape::None;
                self.cut(keep);
            }
            (Escape::Digits { missing, half }, _) => self.digit(missing, half, keep),
        }
        (taken, false)
    }

    /// After one more digit of an escape. Between the halves of a pair (D800 to DBFF before DC00 to DFFF) nothing is cut.
    fn digit(&mut self, missing: u8, half: bool, keep: usize) {
        let begun = self.last.get(self.last.len().saturating_sub(2)..).unwrap_or_default();
        let half = if missing == 3 {
            matches!(begun, [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
        } else {
            half
        };
        if missing > 1 {
            self.escape = Escape::Digits { missing: missing - 1, half };
            return;
        }
        self.escape = Escape::None;
        if !half {
            self.cut(keep);
        }
    }

    /// Forgets the piece before the last one, if the last one is long enough.
    fn cut(&mut self, keep: usize) {
        if self.last.len() >= keep {
            std::mem::swap(&mut self.before, &mut self.last);
            self.last.clear();
        }
    }

    fn end(&self) -> Vec<u8> {
        let text = [self.before.as_slice(), &self.last].concat();
        String::from_utf8_lossy(&text).into_owned().into_bytes()
    }
}

impl Read for ShorteningReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given >= self.ready.len() && !self.ended {
            self.fill()?;
        }
        let rest = self.ready.get(self.given..).unwrap_or_default();
        let many = rest.len().min(into.len());
        for (to, from) in into.iter_mut().zip(rest) {
            *to = *from;
        }
        self.given += many;
        Ok(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(line: &str, keep: usize, chunk: usize) -> String {
        let mut from = io::BufReader::with_capacity(chunk, line.as_bytes());
        let mut text = String::new();
        ShorteningReader::new(&mut from, keep).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn short_lines_stay_as_they_are_however_they_arrive() {
        for line in ["{}", r#"{"a":"b\"\\ \u4e2d\ud83d\ude00","c":[1,"x"]}"#, r#"{"a":"#, r#"{"a":"b\"#, ""] {
            for chunk in 1..9 {
                assert_eq!(shortened(&format!("{line}\nnext"), 100, chunk), line);
            }
        }
    }

    #[test]
    fn long_texts_lose_their_beginning_and_never_half_an_escape() {
        let pieces = ["a", "\\n", "\\\\", "\\\"", "\\u4e2d", "\\ud83d\\ude00", "ü"];
        for piece in pieces {
            for (many, chunk) in (1000..1030).zip([1, 7, 4096].into_iter().cycle()) {
                let line = format!("{{\"log\":\"{}END\"}}", piece.repeat(many));
                let cut = shortened(&line, 64, chunk);
                let value: serde_json::Value = serde_json::from_str(&cut).unwrap();
                let log = value["log"].as_str().unwrap();
                let most = 2 * 64 + chunk + 12;
                assert!(log.ends_with("END") && cut.len() < most + 12, "{piece} {chunk}: {}", cut.len());
            }
        }
    }

    #[test]
    fn the_rest_of_a_line_can_be_left_and_one_that_is_too_long_is_named() {
        let mut from = io::BufReader::with_capacity(3, &b"  \xef\xbb\xbf {1234\n 5\n"[..]);
        let mut line = ShorteningReader::new(&mut from, 64);
        assert_eq!(line.first().unwrap(), Some(b'{'));
        assert_eq!(line.skip().unwrap(), Ok(()));
        let mut line = ShorteningReader::new(&mut from, 64);
        assert_eq!(line.first().unwrap(), Some(b'5'));
        let mut from = &b"123456789\n{}"[..];
        let mut line = ShorteningReader::new(&mut from, 64).at_most(8);
        assert!(line.read(&mut [0; 4]).is_err());
        assert!(line.skip().unwrap().unwrap_err().contains("longer than"));
        assert_eq!(ShorteningReader::new(&mut from, 64).first().unwrap(), Some(b'{'));
    }
}
