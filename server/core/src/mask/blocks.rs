//! Masks private keys: everything between their first and last lines (RFC 7468), and the remainder of a key that was cut off.
//!
//! A log may have a timestamp or a number before each line, or the whole key on one line with `\n` between its parts. So only the BEGIN and
//! END markers are recognized; the text between them is not parsed.

use std::borrow::Cow;

use super::MASK;

const BEGIN_MARKER: &str = "-----BEGIN ";
const END_MARKER: &str = "-----END ";
const MARKER_DASHES: &[u8] = b"-----";
/// The part of the marker that all kinds of keys share: `RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`.
const KEY_BLOCK: &str = "PRIVATE KEY";
/// Longest name of a kind of key, bytes.
const KIND_BYTES: usize = 48;
/// Longest key that is recognized, bytes: a key of 16384 bits takes 13 KB.
const LONGEST_KEY: usize = 24 << 10;
/// Least number of base64 characters in a line of a key; its last line may have fewer.
const MIN_ROW_CHARS: usize = 40;

/// Replaces private keys in a text by the mask.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    if !text.contains(KEY_BLOCK) {
        return Cow::Borrowed(text);
    }
    let (mut masked, mut from) = (String::new(), 0);
    let (mut begin, mut end) = (next(text, BEGIN_MARKER, 0), next(text, END_MARKER, 0));
    loop {
        // a found marker is kept until it is passed, and a search that found none is not repeated, so that the time stays linear in the
        // text
        begin =
            begin.and_then(|known| if known.0 < from { next(text, BEGIN_MARKER, from) } else { Some(known) });
        end = end.and_then(|known| if known.0 < from { next(text, END_MARKER, from) } else { Some(known) });
        let (upto, behind) = match (begin, end) {
            (None, None) => break,
            // only the end of a key: its beginning was cut off
            (None, Some((at, behind))) => (key_start_before(text, from, at), behind),
            (Some(begin), Some((at, behind))) if at < begin.0 => (key_start_before(text, from, at), behind),
            (Some((at, behind)), _) => {
                let near = end.filter(|end| end.0.saturating_sub(behind) <= LONGEST_KEY);
                let rows = || behind.saturating_add(key_end_behind(text.get(behind..).unwrap_or_default()));
                (at, near.map_or_else(rows, |end| end.1))
            }
        };
        masked.push_str(text.get(from..upto).unwrap_or_default());
        masked.push_str(MASK);
        from = behind;
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(masked)
}

/// Start and end of the next marker of this sort at or after byte `from`.
fn next(text: &str, mark: &str, from: usize) -> Option<(usize, usize)> {
    text.get(from..)?.match_indices(mark).find_map(|(at, _)| {
        let at = at.saturating_add(from);
        let kind = at.saturating_add(mark.len());
        let name = text.as_bytes().get(kind..)?;
        let name = name.get(..name.len().min(KIND_BYTES))?;
        let end = memchr::memmem::find(name, MARKER_DASHES)?;
        let ours = memchr::memmem::find(name.get(..end)?, KEY_BLOCK.as_bytes()).is_some();
        ours.then_some((at, kind.saturating_add(end).saturating_add(MARKER_DASHES.len())))
    })
}

/// Start of the lines of a key before byte `end`, at or after byte `from`.
fn key_start_before(text: &str, from: usize, end: usize) -> usize {
    let mut lines = text.get(from..end).unwrap_or_default().split_inclusive(['\n', '\r']).rev().peekable();
    // the part of the line before the marker
    let mut taken = lines.next_if(|line| !line.ends_with(['\n', '\r'])).map_or(0, str::len);
    taken = taken.saturating_add(lines.next_if(|line| is_key_end(line)).map_or(0, str::len));
    taken =
        lines.take_while(|line| is_key_row(line)).fold(taken, |taken, line| taken.saturating_add(line.len()));
    end.saturating_sub(taken)
}

/// End of the lines of a key that has no END marker.
fn key_end_behind(text: &str) -> usize {
    let mut lines = text.split_inclusive(['\n', '\r']).peekable();
    let mut taken: usize = 0;
    let mut rows = false;
    while let Some(line) = lines.next_if(|line| is_key_row(line) || !rows && is_before_rows(line)) {
        rows |= is_key_row(line);
        taken = taken.saturating_add(line.len());
        if taken > LONGEST_KEY {
            return taken;
        }
    }
    let last = lines.next_if(|line| is_key_end(line)).map_or(0, str::len);
    // a marker that a sentence only mentions has no key lines after it, and nothing is masked; but a log may also be cut right after a real
    // marker
    if rows || lines.next().is_none() { taken.saturating_add(last) } else { 0 }
}

/// Whether a line can be between a BEGIN marker and the lines of its key: the rest of the marker's line, a header or an empty line. A line
/// with a further marker is not, because that marker is handled by itself.
fn is_before_rows(line: &str) -> bool {
    line.trim().is_empty() || line.contains(": ") && !line.contains(BEGIN_MARKER)
}

/// Whether a line ends like a line of a key, in base64 characters.
fn is_key_row(line: &str) -> bool {
    let line = line.trim_end();
    line.len().saturating_sub(line.trim_end_matches(is_letter).len()) >= MIN_ROW_CHARS
}

/// Whether the last word of a line can be the end of a key: only base64 characters.
fn is_key_end(line: &str) -> bool {
    line.split_whitespace().next_back().is_some_and(|word| word.chars().all(is_letter))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/=\\".contains(letter)
}
