//! The beginning of a log of which only the end was kept: the cut can go through a secret, whose rest has no shape any more.

use std::borrow::Cow;

use plimsoll_proto::limits;

use super::MASK;

/// A log that is longer was probably cut: its first line is a part of one.
const CUT: usize = limits::LOG_TAIL_BYTES / 2;
/// The most that is given up for the first line, bytes.
const FIRST_LINE: usize = 4 << 10;
/// Letters and digits in a row, mixed, that are taken for the rest of a secret.
const OPAQUE: usize = 8;

/// The log without what may be the rest of a secret.
pub(super) fn mask(tail: &str) -> Cow<'_, str> {
    if tail.len() > CUT {
        return Cow::Borrowed(without_first_line(tail));
    }
    let first = tail.split(char::is_whitespace).next().unwrap_or_default();
    if !is_opaque(first) {
        return Cow::Borrowed(tail);
    }
    Cow::Owned(format!("{MASK}{}", tail.get(first.len()..).unwrap_or_default()))
}

fn without_first_line(tail: &str) -> &str {
    let most = (FIRST_LINE..tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
    let head = tail.get(..most).unwrap_or_default();
    let end = head.find(['\n', '\r']).map_or(most, |end| end.saturating_add(1));
    tail.get(end..).unwrap_or_default()
}

/// A row of letters and digits, with the marks of base64, that is no word.
pub(super) fn is_opaque(word: &str) -> bool {
    let digits = word.bytes().any(|byte| byte.is_ascii_digit());
    let lower = word.bytes().any(|byte| byte.is_ascii_lowercase());
    let upper = word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    word.len() >= OPAQUE
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
        && (digits && (lower || upper) || lower && upper && !word.contains(['_', '-', '/']))
}
