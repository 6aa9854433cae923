//! Looking for words in what a program says.

/// Each part stands in the text.
///
/// # Panics
/// One does not.
#[track_caller]
pub fn assert_has<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// No part stands in the text.
///
/// # Panics
/// One does.
#[track_caller]
pub fn assert_lacks<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(!text.contains(part), "{part:?} is in {text}");
    }
}
