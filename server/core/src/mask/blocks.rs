//! Private keys: all between their first and last lines (RFC 7468), and what is left of one that a cut went through.
//!
//! A log can have a time or a number before each line, or the whole key in one line with `\n` in it. So what counts are the
//! marks, and between them nothing is read.

use std::borrow::Cow;

use super::MASK;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &[u8] = b"-----";
/// What every kind has in both marks: `RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`.
const KIND: &str = "PRIVATE KEY";
/// Bytes of the longest name of a kind.
const KIND_BYTES: usize = 48;
/// Bytes of the longest key that is looked for: one of 16384 bits has 13 KB.
const MOST: usize = 24 << 10;
/// Letters in a row that a line of a key has at least, unless it is the last.
const ROW: usize = 40;

/// The text without private keys.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    if !text.contains(KIND) {
        return Cow::Borrowed(text);
    }
    let (mut masked, mut from) = (String::new(), 0);
    let (mut begin, mut end) = (next(text, BEGIN, 0), next(text, END, 0));
    loop {
        // a mark serves until it is passed, and where there is none, none is looked for again: the time must not grow with the square of
        // the text
        begin = begin.and_then(|known| if known.0 < from { next(text, BEGIN, from) } else { Some(known) });
        end = end.and_then(|known| if known.0 < from { next(text, END, from) } else { Some(known) });
        let (upto, behind) = match (begin, end) {
            (None, None) => break,
            // the end of a key whose beginning is cut off
            (None, Some((at, behind))) => (rows_before(text, from, at), behind),
            (Some(begin), Some((at, behind))) if at < begin.0 => (rows_before(text, from, at), behind),
            (Some((at, behind)), _) => {
                let near = end.filter(|end| end.0.saturating_sub(behind) <= MOST);
                let rows = || behind.saturating_add(rows_behind(text.get(behind..).unwrap_or_default()));
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

/// Where the next such mark of a private key begins and ends, from this byte on.
fn next(text: &str, mark: &str, from: usize) -> Option<(usize, usize)> {
    text.get(from..)?.match_indices(mark).find_map(|(at, _)| {
        let at = at.saturating_add(from);
        let kind = at.saturating_add(mark.len());
        let name = text.as_bytes().get(kind..)?;
        let name = name.get(..name.len().min(KIND_BYTES))?;
        let end = memchr::memmem::find(name, DASHES)?;
        let ours = memchr::memmem::find(name.get(..end)?, KIND.as_bytes()).is_some();
        ours.then_some((at, kind.saturating_add(end).saturating_add(DASHES.len())))
    })
}

/// Where the rows of a key begin that ends at `end`; none of them stands before `from`.
fn rows_before(text: &str, from: usize, end: usize) -> usize {
    let mut lines = text.get(from..end).unwrap_or_default().split_inclusive(['\n', '\r']).rev().peekable();
    // what stands before the mark in its line
    let mut taken = lines.next_if(|line| !line.ends_with(['\n', '\r'])).map_or(0, str::len);
    taken = taken.saturating_add(lines.next_if(|line| is_end(line)).map_or(0, str::len));
    taken = lines.take_while(|line| is_row(line)).fold(taken, |taken, line| taken.saturating_add(line.len()));
    end.saturating_sub(taken)
}

/// Where the rows of a key end that has no end.
fn rows_behind(text: &str) -> usize {
    let mut lines = text.split_inclusive(['\n', '\r']).peekable();
    let mut taken: usize = 0;
    let mut rows = false;
    while let Some(line) = lines.next_if(|line| is_row(line) || !rows && is_before_rows(line)) {
        rows |= is_row(line);
        taken = taken.saturating_add(line.len());
        if taken > MOST {
            return taken;
        }
    }
    let last = lines.next_if(|line| is_end(line)).map_or(0, str::len);
    // what was a mark in a sentence only has no rows behind it, and a cut can be right behind the mark
    if rows || lines.next().is_none() { taken.saturating_add(last) } else { 0 }
}

/// The rest of the mark's own line, a header or an empty line. A further mark is none: each line is looked at for one mark.
fn is_before_rows(line: &str) -> bool {
    line.trim().is_empty() || line.contains(": ") && !line.contains(BEGIN)
}

/// A line that ends as those of a key do.
fn is_row(line: &str) -> bool {
    let line = line.trim_end();
    line.len().saturating_sub(line.trim_end_matches(is_letter).len()) >= ROW
}

/// A line whose last word can be the end of a key.
fn is_end(line: &str) -> bool {
    line.split_whitespace().next_back().is_some_and(|word| word.chars().all(is_letter))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/=\\".contains(letter)
}
