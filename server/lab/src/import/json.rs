//! JSON of one row, as programs write it that are not strict.

/// The text with `null` in place of `NaN`, which is no JSON: Python's `json` writes it for a value that is not known.
pub(super) fn without_nan(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len() + 8), text);
    let (mut in_string, mut is_escaped) = (false, false);
    while let Some((byte, behind)) = rest.split_first() {
        if !in_string && let Some(behind) = rest.strip_prefix(b"NaN") {
            out.extend_from_slice(b"null");
            rest = behind;
            continue;
        }
        in_string ^= *byte == b'"' && !is_escaped;
        is_escaped = in_string && *byte == b'\\' && !is_escaped;
        out.push(*byte);
        rest = behind;
    }
    out
}
