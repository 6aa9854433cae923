//! Where evidence comes from, in words for people.

/// A source of evidence as it stands behind "from the": `kernel`, `CI system`. Words that are not known here stay as they are.
#[must_use]
pub fn source_in_words(source: &str) -> &str {
    match source {
        "ci" => "CI system",
        "exit" => "exit status",
        "measured" => "measurements",
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_a_newer_server_is_shown_as_it_is() {
        assert_eq!(["log", "ci", "moon"].map(source_in_words), ["log", "CI system", "moon"]);
    }
}
