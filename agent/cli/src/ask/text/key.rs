//! Prints the key of a build.

use std::fmt::Write as _;

use plimsoll_proto::{shown::clean, tables::build_name, v1::Key};

/// The key, with the fields that distinguish it from similar keys.
pub(in crate::ask) fn key_words(key: &Key) -> String {
    let mut text = build_name(key);
    for (mark, part) in [
        (" ", &key.variants),
        (" arch=", &key.arch),
        (" in ", &key.stack),
        (" of ", &key.project),
        (" on ", &key.r#ref),
    ] {
        if !part.is_empty() {
            text.push_str(mark);
            text.push_str(&clean(part));
        }
    }
    if let Some(jobs) = key.hints.and_then(|hints| hints.build_jobs) {
        let _written = write!(text, " -j{jobs}");
    }
    text
}
