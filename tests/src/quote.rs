//! Foreign text as a part of a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What Python's `urllib.parse.quote` does not leave as it is.
const PYTHON: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~').remove(b'/');

/// A text as one part of a path, or as one value.
pub fn quoted(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A text as stock Spack, which is written in Python, puts it into a URL.
pub fn quoted_by_python(text: &str) -> String {
    utf8_percent_encode(text, PYTHON).to_string()
}
