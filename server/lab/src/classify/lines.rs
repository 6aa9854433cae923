//! Reads the recorded failures of a file, plain or gzip, line by line.

use std::{
    fmt,
    io::{self, BufRead, Read},
};

use plimsoll_base::unpack::unpacked;

use super::failure::Failure;

/// Longest line that is read, bytes. It bounds the memory, and is many times the log that a server takes, even if each of its bytes is escaped.
const LONGEST_LINE: u64 = 32 << 20;

/// One line of the input file.
#[derive(Debug)]
pub struct InputLine {
    /// Number of the line, from 1.
    pub number: u64,
    /// The line's failure, or why it cannot be read.
    pub failure: Result<Failure, String>,
}

/// The lines of a file that are not empty, as an iterator.
pub struct InputLines {
    from: Box<dyn BufRead>,
    number: u64,
}

impl fmt::Debug for InputLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}

impl InputLines {
    /// Starts to read `file`, [unpacked].
    pub fn open(file: Box<dyn Read>) -> io::Result<Self> {
        Ok(Self { from: unpacked(file)?, number: 0 })
    }

    fn read(&mut self) -> io::Result<Option<InputLine>> {
        let mut line = Vec::new();
        while self.from.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line)? > 0 {
            self.number += 1;
            let failure = if line.len() as u64 > LONGEST_LINE && !line.ends_with(b"\n") {
                self.from.skip_until(b'\n')?;
                Err(format!("is longer than {} MiB; the end of the log is enough", LONGEST_LINE >> 20))
            } else {
                Failure::parse(&line)
            };
            if let Some(failure) = failure.transpose() {
                return Ok(Some(InputLine { number: self.number, failure }));
            }
            line.clear();
        }
        Ok(None)
    }
}

impl Iterator for InputLines {
    type Item = io::Result<InputLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, Option<String>)> {
        let lines = InputLines::open(Box::new(io::Cursor::new(bytes.to_vec()))).unwrap();
        let id = |line: InputLine| (line.number, line.failure.ok().map(|failure| failure.id().to_owned()));
        lines.map(|line| id(line.unwrap())).collect()
    }

    #[test]
    fn plain_and_packed_lines_are_the_same() {
        let plain = b"{\"id\":\"one\"}\n\n  \n\xef\xbb\xbf{\"id\":\"two\"}\n{]\n{\"id\":\"three\"}".to_vec();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, &plain).unwrap();
        for bytes in [plain, packed.finish().unwrap()] {
            let named = |id: &str| Some(id.to_owned());
            assert_eq!(lines(&bytes), [(1, named("one")), (4, named("two")), (5, None), (6, named("three"))]);
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself() {
        let longest = usize::try_from(LONGEST_LINE).unwrap();
        for bytes in [longest + 1, 2 * longest] {
            let log = format!("{{\"log_tail\":\"{}\"}}", "x".repeat(bytes - r#"{"log_tail":""}"#.len()));
            let read = lines(format!("{log}\n{{\"id\":\"next\"}}\n").as_bytes());
            assert_eq!(read, [(1, None), (2, Some("next".to_owned()))], "{} bytes", log.len());
        }
    }

    #[test]
    fn a_truncated_gzip_file_is_an_error() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, &b"{\"id\":\"one\"}\n".repeat(100_000)).unwrap();
        let packed = packed.finish().unwrap();
        let cut = packed.get(..packed.len() / 2).unwrap().to_vec();
        let read: io::Result<Vec<InputLine>> =
            InputLines::open(Box::new(io::Cursor::new(cut))).unwrap().collect();
        assert!(read.is_err());
    }
}
