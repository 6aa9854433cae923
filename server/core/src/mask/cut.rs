//! Masks the start of a log that was cut off: the cut may go through a secret, and the rest of the secret matches no pattern.

use std::borrow::Cow;

use plimsoll_proto::limits;

use super::MASK;

/// Most bytes of the first line in which the rest of a secret is searched.
const FIRST_LINE: usize = 4 << 10;
/// Least length of a mixed run of letters and digits that may be the rest of a secret.
const MIN_REMAINDER: usize = 8;

/// Replaces what may be the rest of a secret at the start of a log by the mask.
pub(super) fn mask(tail: &str) -> Cow<'_, str> {
    if tail.len() > limits::CUT_LOG_BYTES {
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

/// Whether a run of base64 characters is not a word.
pub(super) fn is_opaque(word: &str) -> bool {
    let digits = word.bytes().any(|byte| byte.is_ascii_digit());
    let lower = word.bytes().any(|byte| byte.is_ascii_lowercase());
    let upper = word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    word.len() >= MIN_REMAINDER
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
        && (digits && (lower || upper) || lower && upper && !word.contains(['_', '-', '/']))
}
