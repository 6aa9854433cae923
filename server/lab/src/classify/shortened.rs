//! Reads one line of JSON, and cuts long texts in it down to their ends. So a line of any length takes at most
//! a few hundred KiB of memory. Bytes that are not UTF-8 are replaced.

use std::io::{self, BufRead, Read};

/// Longest line, bytes. A log of 100 MB fits, even if every second byte of it is escaped.
const LONGEST_LINE: u64 = 256 << 20;

/// Reads one line, with its long texts shortened.
pub(super) struct ShorteningReader<'r> {
    from: &'r mut dyn BufRead,
    /// Least number of bytes kept of a long text; at most twice as many are kept.
    keep: usize,
    longest_line: u64,
    /// Bytes of the line read so far.
    read: u64,
    has_ended: bool,
    text: Option<ShortenedText>,
    ready_bytes: Vec<u8>,
    /// Bytes of `ready` that the caller has already got.
    given_bytes: usize,
}

/// The end of the text that is being read, in two pieces: to cut the text, the older piece is dropped. A piece
/// never ends inside an escape sequence.
#[derive(Default)]
struct ShortenedText {
    earlier_piece: Vec<u8>,
    latest_piece: Vec<u8>,
    escape: EscapeState,
}

/// The position within an escape sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    None,
    /// Directly after the backslash.
    Begun,
    /// After `\u`, with `missing` digits to come; `half` is true if it is the first half of a surrogate pair.
    Digits { missing: u8, half: bool },
}

impl<'r> ShorteningReader<'r> {
    /// A reader of the next line of `from`. It keeps between `keep` and twice `keep` bytes of each text.
    pub(super) fn new(from: &'r mut dyn BufRead, keep: usize) -> Self {
        let (ready, text) = (Vec::new(), None);
        Self {
            from,
            keep,
            longest_line: LONGEST_LINE,
            read: 0,
            has_ended: false,
            text,
            ready_bytes: ready,
            given_bytes: 0,
        }
    }

    /// Sets the length of the longest line, bytes.
    #[cfg(test)]
    pub(super) fn at_most(self, longest: u64) -> Self {
        Self { longest_line: longest, ..self }
    }

    /// The first byte that is not white space, without consuming it; `None` if the line has none.
    /// Errors: the line cannot be read.
    pub(super) fn first(&mut self) -> io::Result<Option<u8>> {
        loop {
            let rest = self.ready_bytes.get(self.given_bytes..).unwrap_or_default();
            // a byte order mark counts as white space
            let blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
            if let Some(at) = rest.iter().position(|byte| !blank(byte)) {
                self.given_bytes += at;
                return Ok(self.ready_bytes.get(self.given_bytes).copied());
            }
            self.given_bytes = self.ready_bytes.len();
            if self.has_ended {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Reads the rest of the line and drops it; returns an error text if the line is too long.
    /// Errors: the line cannot be read.
    pub(super) fn skip(mut self) -> io::Result<Result<(), String>> {
        while !self.has_ended {
            let part = self.from.fill_buf()?;
            let (taken, end) = split_line(part);
            let used = taken.len() + usize::from(end);
            self.has_ended = end || part.is_empty();
            self.read = self.read.saturating_add(taken.len() as u64);
            self.from.consume(used);
        }
        let too_long = self.read > self.longest_line;
        let why = || format!("is longer than {} MiB; the end of the log is enough", self.longest_line >> 20);
        Ok(if too_long { Err(why()) } else { Ok(()) })
    }

    /// Reads a part of the line into `ready`. A text goes there only when its end was read.
    fn fill(&mut self) -> io::Result<()> {
        self.ready_bytes.clear();
        self.given_bytes = 0;
        let part = self.from.fill_buf()?;
        let (mut line, end) = split_line(part);
        let used = line.len() + usize::from(end);
        let read = self.read.saturating_add(line.len() as u64);
        if read > self.longest_line {
            // the caller then skips the rest of the line and reports its length
            return Err(io::Error::other("too long"));
        }
        (self.read, self.has_ended) = (read, end || part.is_empty());
        while !line.is_empty() {
            let Some(text) = &mut self.text else {
                let to = line.iter().position(|byte| *byte == b'"').map_or(line.len(), |at| at + 1);
                let (outside, rest) = line.split_at(to);
                self.ready_bytes.extend_from_slice(outside);
                self.text = outside.ends_with(b"\"").then(ShortenedText::default);
                line = rest;
                continue;
            };
            let (taken, closed) = text.take(line, self.keep);
            line = line.get(taken..).unwrap_or_default();
            if closed {
                self.ready_bytes.extend_from_slice(&text.kept_end());
                self.text = None;
            }
        }
        self.from.consume(used);
        if self.has_ended
            && let Some(text) = self.text.take()
        {
            self.ready_bytes.extend_from_slice(&text.kept_end());
        }
        Ok(())
    }
}

/// The bytes that belong to this line, and whether the line ends with them.
fn split_line(part: &[u8]) -> (&[u8], bool) {
    match memchr::memchr(b'\n', part) {
        Some(at) => (part.get(..at).unwrap_or_default(), true),
        None => (part, false),
    }
}

impl ShortenedText {
    /// Takes bytes of the text, up to and including its closing quote. Returns how many, and whether the text
    /// has ended.
    fn take(&mut self, line: &[u8], keep: usize) -> (usize, bool) {
        let Some(first) = line.first().copied() else { return (0, false) };
        let taken = match self.escape {
            EscapeState::None => memchr::memchr2(b'"', b'\\', line).unwrap_or(line.len()).max(1),
            EscapeState::Begun | EscapeState::Digits { .. } => 1,
        };
        self.latest_piece.extend_from_slice(line.get(..taken).unwrap_or_default());
        match (self.escape, first) {
            (EscapeState::None, b'"') => return (1, true),
            (EscapeState::None, b'\\') => self.escape = EscapeState::Begun,
            (EscapeState::None, _) => self.drop_before(keep),
            (EscapeState::Begun, b'u') => self.escape = EscapeState::Digits { missing: 4, half: false },
            (EscapeState::Begun, _) => {
                self.escape = EscapeState::None;
                self.drop_before(keep);
            }
            (EscapeState::Digits { missing, half }, _) => self.digit(missing, half, keep),
        }
        (taken, false)
    }

    /// Takes one more digit of a `\u` escape. The text is not cut between the two halves of a surrogate pair
    /// (D800 to DBFF, then DC00 to DFFF).
    fn digit(&mut self, missing: u8, half: bool, keep: usize) {
        let begun = self.latest_piece.get(self.latest_piece.len().saturating_sub(2)..).unwrap_or_default();
        let half = if missing == 3 {
            matches!(begun, [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
        } else {
            half
        };
        if missing > 1 {
            self.escape = EscapeState::Digits { missing: missing - 1, half };
            return;
        }
        self.escape = EscapeState::None;
        if !half {
            self.drop_before(keep);
        }
    }

    /// Drops the older piece, if the newer one is long enough.
    fn drop_before(&mut self, keep: usize) {
        if self.latest_piece.len() >= keep {
            std::mem::swap(&mut self.earlier_piece, &mut self.latest_piece);
            self.latest_piece.clear();
        }
    }

    fn kept_end(&self) -> Vec<u8> {
        let text = [self.earlier_piece.as_slice(), &self.latest_piece].concat();
        String::from_utf8_lossy(&text).into_owned().into_bytes()
    }
}

impl Read for ShorteningReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given_bytes >= self.ready_bytes.len() && !self.has_ended {
            self.fill()?;
        }
        let rest = self.ready_bytes.get(self.given_bytes..).unwrap_or_default();
        let many = rest.len().min(into.len());
        for (to, from) in into.iter_mut().zip(rest) {
            *to = *from;
        }
        self.given_bytes += many;
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
