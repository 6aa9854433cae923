//! Looking for words in what a program says.

/// The text contains each part.
///
/// # Panics
/// A part is missing.
#[track_caller]
pub fn assert_has<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// The text contains none of the parts.
///
/// # Panics
/// It contains a part.
#[track_caller]
pub fn assert_lacks<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(!text.contains(part), "{part:?} is in {text}");
    }
}
