//! What is sent of a log that is too long: the first lines that look like an error, the last such lines before the end, and the end.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io::{self, Read},
    sync::LazyLock,
};

use memchr::memchr2;
use regex::bytes::Regex;

use crate::unpack::unpacked;

/// Most bytes of the end of a log.
pub const LOG_TAIL_BYTES: usize = 64 * 1024;
/// A log longer than this may have been cut by its sender, so that its first line is not complete; bytes.
pub const CUT_LOG_BYTES: usize = LOG_TAIL_BYTES / 2;

/// Marks the start of an excerpt: the lines after it are single lines from anywhere in the log.
pub const LINES_MARK: &str = "[plimsoll: lines from above the end of the log]\n";
/// Marks the end of these lines: what follows is the end of the log, without gaps.
pub const END_MARK: &str = "[plimsoll: the end of the log]\n";

/// Most bytes of the first lines that are kept from above the end, and of the last ones.
const KEPT_BYTES: usize = 8 << 10;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Longest line kept from above the end, bytes.
const LINE_BYTES: usize = 4 << 10;

/// Matches words of a line that may say what went wrong: not as a part of a path, an option or another word.
static LOOKS_LIKE_ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?-u)(?:^|[^A-Za-z0-9_/.-])(?i:error|fatal|fail(?:ed|ure|s)?|killed|out of memory|memory|cannot|can't|could not|couldn't|unable to|denied|refused",
        r"|timed out|time-?out|exception|panic|panicked|abort|aborted|no space|not found|no such|unexpected|exceeded|signal|unavailable|reset by|lost|oom",
        r"|exhausted|corrupt|preempted|evicted|cancell?(?:ed|ing)|undefined|no rule|missing|mismatch(?:ed)?|conflicts?|too many|overflowed|truncated",
        r"|incorrect|invalid|interrupted|interrupt|unreachable|unresolved|required|requires|not (?:be|have|in|met|match|permitted|allowed|authorized|installed|available|satisfied)",
        r"|doesn't|don't|does not|do not|did not|has no|no (?:matching|healthy)|expired|superseded|deleted unexpectedly|shutdown|shutting down|not ready|stopped hearing",
        r"|low on resource|had condition|exceeds|longer than the|larger than|over its|read-only file system|status(?: code)?:? [45][0-9][0-9]|(?:exit|status|with) code:? -?[1-9][0-9]*",
        r"|is not|are not|not agreed|no suitable|unbound|bug report|closed (?:the )?connection|connection closed|not signed|needs [0-9.]+ ?[KMG]B more|more space|is currently busy|already reached|is down|unauthorized",
        r"|verify|is needed by|killed:? [0-9]+|segmentation fault|crashed|stop|needed|not all|no more|is full|unresponsive|reached|no longer|tainted|locked|(?:un|de)registered",
        r"|disappeared|disconnected|last contact|interruption|permitted|timed_out|(?:was|been) deleted|at 100 ?%|heard from|rebooted|heartbeats?|reclaimed|drained|preemptible",
        r"|more than its|more (?:recent|memory than)|no (?:progress|output|activity)|closed the|answered [45][0-9][0-9]|shorter than|seats|(?:ended|stopped) by|holds the lock|used (?:up )?all|lacks|ran out of|on request)(?:[^A-Za-z0-9_/.-]|\.\s|[.:]?$|: )|[a-z](?:Error|Exception|Failure|Disconnected|BadZipFile|OutOfMemory)\b",
        r"|\bE[A-Z]{4,12}\b|\bSSL_ERROR|bad_alloc|oom-killer|OOM_?Killed|OUT_OF_ME|NoExecute|spot/instance-action|e3b0c44298fc1c14|da39a3ee5e6b4b0d|d41d8cd98f00b204|cf83e1357eefb8bd|^! [A-Z]|^e: |^-- [A-Z][A-Z ]+ -{3}|^See <|\*\*\* "
    ))
    .ok()
});
/// Matches what is not text in a line: colours, and the NUL bytes of UTF-16.
static NON_TEXT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)\x1b\[[0-?]*[ -/]*[@-~]|\x00").ok());

/// Reads a log in pieces, in bounded memory, and keeps what is sent of it.
#[derive(Debug)]
pub struct LogExcerpt {
    most: usize,
    context: usize,
    end: VecDeque<u8>,
    above: LinesAbove,
}

impl LogExcerpt {
    /// An empty excerpt of at most `most` bytes (at least 32 KiB); a log that is not longer is kept whole. `context`: bytes held before
    /// these, so that a mask sees a whole secret where the excerpt cuts it.
    pub fn new(most: usize, context: usize) -> Self {
        Self { most: most.max(4 * KEPT_BYTES), context, end: VecDeque::new(), above: LinesAbove::default() }
    }

    /// Adds the next piece of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        let held = self.most.saturating_add(self.context);
        for piece in bytes.chunks(held) {
            let beyond = self.end.len().saturating_add(piece.len()).saturating_sub(held);
            let (first, second) = self.end.as_slices();
            let of_first = beyond.min(first.len());
            self.above.read(first.get(..of_first).unwrap_or_default());
            self.above.read(second.get(..beyond - of_first).unwrap_or_default());
            self.end.drain(..beyond);
            self.end.extend(piece);
        }
    }

    /// Adds a log to its end. One that is packed is [unpacked]; of one that is cut, as that of a job that was killed, what there is counts.
    /// Errors: it cannot be read or unpacked.
    pub fn read_all(&mut self, log: impl Read) -> io::Result<()> {
        let mut log = unpacked(log)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut has_some = false;
        loop {
            match log.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    has_some = true;
                    self.push(piece.get(..read).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if has_some && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The excerpt of all that was read. The server drops the first line of a long log, because a cut may go through a secret in it; a log
    /// that is whole begins with an empty line for that. `mask` hides secrets; it gets whole lines, or the end of the log with its context.
    pub fn finish(mut self, mask: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut end = mask(self.end.make_contiguous());
        if !self.above.was_read && end.len() <= self.most {
            if (CUT_LOG_BYTES..self.most).contains(&end.len()) {
                end.insert(0, b'\n');
            }
            return end;
        }
        let kept = 2 * KEPT_BYTES + LINES_MARK.len() + END_MARK.len();
        let cut = end.len().saturating_sub(self.most.saturating_sub(kept));
        // the end begins with a whole line: the rest of a cut line may be the rest of a secret, so it is dropped, up to LINE_BYTES
        let line = end.iter().skip(cut).take(LINE_BYTES).position(|byte| b"\n\r".contains(byte));
        let (between, end) = end.split_at((cut + line.map_or(LINE_BYTES, |at| at + 1)).min(end.len()));
        let mut above = self.above.masked(mask);
        above.read(between);
        let mut bytes = LINES_MARK.as_bytes().to_vec();
        bytes.extend(above.first);
        bytes.extend(above.last.iter().flatten());
        bytes.extend(END_MARK.as_bytes());
        bytes.extend(end);
        bytes
    }
}

/// The log above its end, of which only single lines are kept.
#[derive(Debug, Default)]
struct LinesAbove {
    /// The line that is not complete yet; what is beyond [`LINE_BYTES`] is not held.
    line: Vec<u8>,
    /// Whether the rest of the current line is passed over.
    skips_line: bool,
    was_read: bool,
    first: Vec<u8>,
    last: VecDeque<Vec<u8>>,
    last_bytes: usize,
}

impl LinesAbove {
    /// With secrets masked. A line that is not complete yet is dropped: its beginning was not masked together with its end.
    fn masked(self, mask: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let last: VecDeque<Vec<u8>> = self.last.iter().map(|line| mask(line)).collect();
        let skips_line = self.skips_line || !self.line.is_empty();
        Self {
            line: Vec::new(),
            skips_line,
            first: mask(&self.first),
            last_bytes: last.iter().map(Vec::len).sum(),
            last,
            ..self
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.was_read |= !bytes.is_empty();
        let mut rest = bytes;
        while let Some((line, after)) =
            memchr2(b'\n', b'\r', rest).and_then(|at| rest.split_at_checked(at + 1))
        {
            rest = after;
            if self.line.is_empty() {
                self.end_line(line);
            } else {
                self.begin_line(line);
                let mut line = std::mem::take(&mut self.line);
                self.end_line(&line);
                line.clear();
                self.line = line;
            }
        }
        self.begin_line(rest);
    }

    /// Holds a part of a line of which the end has not been read.
    fn begin_line(&mut self, part: &[u8]) {
        let room = (LINE_BYTES + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Keeps a line if it looks like an error. Its last byte is its end, unless it is longer than what is held.
    fn end_line(&mut self, line: &[u8]) {
        let is_whole = !std::mem::take(&mut self.skips_line) && line.len() <= LINE_BYTES;
        let Some((_end, text)) = line.split_last().filter(|_| is_whole) else { return };
        if !looks_like_error(line) {
            return;
        }
        if self.first.len() + line.len() <= KEPT_BYTES {
            self.first.extend_from_slice(text);
            self.first.push(b'\n');
            return;
        }
        self.last_bytes += line.len();
        self.last.push_back([text, b"\n"].concat());
        while self.last_bytes > KEPT_BYTES {
            self.last_bytes -= self.last.pop_front().map_or(self.last_bytes, |line| line.len());
        }
    }
}

/// Whether a line, as a program wrote it, may say what went wrong.
fn looks_like_error(line: &[u8]) -> bool {
    let plain = match NON_TEXT.as_ref().filter(|_| memchr2(b'\x1b', 0, line).is_some()) {
        Some(no_text) => no_text.replace_all(line, &b""[..]),
        None => Cow::Borrowed(line),
    };
    LOOKS_LIKE_ERROR.as_ref().is_some_and(|error| error.is_match(plain.trim_ascii_end()))
}

/// The excerpt of a log that is in memory, at most `most` bytes (at least 32 KiB).
pub fn of(log: &[u8], most: usize) -> Vec<u8> {
    let mut excerpt = LogExcerpt::new(most, 0);
    excerpt.push(log);
    excerpt.finish(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::string_slice,
        clippy::format_collect,
        clippy::large_stack_arrays,
        reason = "logs of a test are ASCII and short-lived"
    )]

    use super::*;

    const MOST: usize = 64 << 10;

    fn text(log: &str) -> String {
        String::from_utf8(of(log.as_bytes(), MOST)).unwrap()
    }

    #[test]
    fn long_logs_keep_errors_and_tail() {
        let short = "error: no\n".repeat(MOST / 10);
        assert_eq!(text(&short), format!("\n{short}"), "its first line is not dropped");
        assert_eq!(text(&short[..30_000]), short[..30_000]);
        let cause = "cc1plus: out of memory allocating 65536 bytes\n";
        let noise = "cleaning up file 17 of 900\nx.c -Werror -fno-exceptions error.o\n";
        let log =
            format!("{cause}{}x: error: last of them\n{}the end\n", noise.repeat(9_000), noise.repeat(2_000));
        let kept = text(&log);
        assert!(kept.len() <= MOST && kept.ends_with("the end\n"));
        let (lines, end) = kept.split_once(END_MARK).unwrap();
        assert_eq!(lines, format!("{LINES_MARK}{cause}x: error: last of them\n"));
        assert!(end.len() > MOST / 2 && log.ends_with(end) && log[..log.len() - end.len()].ends_with('\n'));
    }

    #[test]
    fn colours_and_utf_16_do_not_hide_errors() {
        let wide: String = "x: error: wide\n".chars().flat_map(|letter| [letter, '\0']).collect();
        for line in
            ["a.c:1:2: \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kno\n", "\x1b[31merror[E0308]\x1b[0m: x\n", &wide]
        {
            let kept = text(&format!("{line}{}", "building\n".repeat(9_000)));
            assert!(kept.starts_with(&format!("{LINES_MARK}{}", &line[..line.len() - 2])), "{kept:.80}");
        }
        let log = format!("{}\n{}", "building\n".repeat(9_000), "s3cret-w0rd".repeat(9_000));
        let kept = text(&log);
        let end = kept.split_once(END_MARK).unwrap().1;
        assert!(log.len() - log.rfind(end).unwrap() < MOST - 2 * KEPT_BYTES - LINE_BYTES, "{}", end.len());
    }

    #[test]
    fn the_first_and_last_errors_are_kept() {
        let log: String = (0..20_000).map(|n| format!("error: number {n}\n")).collect();
        let kept = text(&log);
        let (lines, end) = kept.split_once(END_MARK).unwrap();
        assert!(lines.starts_with(&format!("{LINES_MARK}error: number 0\nerror: number 1\n")));
        let first_of_end: usize = end.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        let last = format!("error: number {}\n", first_of_end - 1);
        assert!(lines.ends_with(&last), "no line is lost before the end");
    }

    #[test]
    fn a_secret_is_masked_wherever_the_excerpt_cuts() {
        let secret = b"pa55word-of-16-b";
        let hide = |text: &[u8]| String::from_utf8_lossy(text).replace("pa55word-of-16-b", "*").into_bytes();
        for before in 0..64 {
            let log = format!("{}\nerror: {0}pa55word-of-16-b\n", "y".repeat(before)).repeat(9_000);
            let mut excerpt = LogExcerpt::new(MOST, 1_000);
            excerpt.push(log.as_bytes());
            let sent = excerpt.finish(hide);
            assert!(sent.len() <= MOST && !sent.windows(6).any(|part| part == &secret[10..]), "{before}");
        }
    }

    #[test]
    fn chunked_and_endless_lines_use_bounded_memory() {
        let log =
            format!("error: here\n{}\nfatal: there\n{}", "x".repeat(900_000), "building\n".repeat(9_000));
        for piece in [1, 7, 4096, log.len()] {
            let mut excerpt = LogExcerpt::new(MOST, 0);
            log.as_bytes().chunks(piece).for_each(|bytes| excerpt.push(bytes));
            assert!(excerpt.above.line.capacity() <= 4 * LINE_BYTES);
            assert!(excerpt.finish(<[u8]>::to_vec) == of(log.as_bytes(), MOST), "{piece}");
        }
        assert!(text(&log).starts_with(&format!("{LINES_MARK}error: here\nfatal: there\n{END_MARK}")));
        assert_eq!(of(b"", MOST), b"");
    }

    #[test]
    fn half_a_gigabyte_line_uses_bounded_memory() {
        let mut excerpt = LogExcerpt::new(MOST, 0);
        excerpt.push(b"error: before\n");
        for _ in 0..250 {
            excerpt.push(&[b'x'; 1_000_000]);
            excerpt.push(&[0; 1_000_000]);
        }
        excerpt.push(b"\nerror: after\n");
        assert!(excerpt.above.line.capacity() <= 4 * LINE_BYTES && excerpt.end.capacity() <= 4 * MOST);
        let kept = excerpt.finish(<[u8]>::to_vec);
        let first = format!("{LINES_MARK}error: before\n");
        assert!(
            kept.len() <= MOST && kept.starts_with(first.as_bytes()) && kept.ends_with(b"\nerror: after\n")
        );
    }
}
