//! What secrets look like, as `patterns.toml` has it.

use std::sync::LazyLock;

use regex_syntax::{Parser, hir::literal::Extractor};
use serde::Deserialize;

/// The file; the texts that each pattern hides and keeps are for the tests.
pub(super) const FILE: &str = include_str!("patterns.toml");

/// All of the file that masking needs; `None` if it cannot be read, which a test refuses.
pub(super) static DATA: LazyLock<Option<Data>> = LazyLock::new(|| toml::from_str(FILE).ok());

#[derive(Debug, Deserialize)]
pub(super) struct Data {
    pub(super) pattern: Vec<Pattern>,
    pub(super) named: Named,
}

/// A secret that is known by its letters or by its place.
#[derive(Debug, Deserialize)]
pub(super) struct Pattern {
    /// Regular expression; all of a match is the secret, or its group `secret`.
    pub(super) find: String,
    /// One of these is in each match; empty where a match can be seen to begin with one of a few words.
    #[serde(default)]
    pub(super) holds: Vec<String>,
    /// What begins so is none.
    pub(super) unless: Option<String>,
    /// Counts only where a word begins.
    #[serde(default)]
    pub(super) border: bool,
    /// Counts only if its letters look random.
    #[serde(default)]
    pub(super) random: bool,
    /// Counts only if they do, and are of both cases.
    #[serde(default)]
    pub(super) both_cases: bool,
}

impl Pattern {
    /// The whole regular expression, with the group `secret`. Borders of words are those of ASCII: others take the slow way of the
    /// library in each text that has a letter beyond.
    pub(super) fn expression(&self) -> String {
        let border = if self.border { r"(?-u:\b)" } else { "" };
        let group = if self.find.contains("(?<secret>") { "?:" } else { "?<secret>" };
        format!("{border}({group}{})", self.find)
    }

    /// One of these is in each match, in small or capital letters. Not empty: a test sees to it.
    pub(super) fn words(&self) -> Vec<String> {
        if self.holds.is_empty() { self.beginnings() } else { self.holds.clone() }
    }

    /// The letters that a match begins with, up to where more than three can follow; none if it can begin with many.
    pub(super) fn beginnings(&self) -> Vec<String> {
        // in small letters alone: each way to write a word would be one of its own
        let find = self.find.replace("(?i)", "").replace("(?i:", "(?:");
        let parsed = Parser::new().parse(&find).ok();
        let literals = parsed.map(|parsed| Extractor::new().limit_class(3).extract(&parsed));
        let literals = literals.as_ref().and_then(|literals| literals.literals()).unwrap_or_default();
        let text = |bytes| str::from_utf8(bytes).ok().map(str::to_ascii_lowercase);
        let mut words: Vec<String> = literals.iter().filter_map(|literal| text(literal.as_bytes())).collect();
        words.sort_unstable();
        words.dedup();
        words
    }
}

/// Values that are known by the name before them.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    /// Regular expressions of what stands in such a name.
    pub(super) names: Vec<String>,
    /// What such a name is, or ends with.
    pub(super) words: Vec<String>,
    /// Of these words, values that are words are settings.
    pub(super) settings: Vec<String>,
    /// Ends of names whose values are no secrets.
    pub(super) harmless: Vec<String>,
    /// Values that say that there is none.
    pub(super) nothing: Vec<String>,
}
