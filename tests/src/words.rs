//! Looking for words in what a program says.

/// The text contains each part.
#[track_caller]
pub fn assert_has<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// The text contains none of the parts.
#[track_caller]
pub fn assert_lacks<P: AsRef<str>>(text: &str, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        assert!(!text.contains(part), "{part:?} is in {text}");
    }
}
