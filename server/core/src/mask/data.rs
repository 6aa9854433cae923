//! The patterns of secrets, as `patterns.toml` lists them.

use std::sync::LazyLock;

use regex_syntax::{Parser, hir::literal::Extractor};
use serde::Deserialize;

/// Text of the pattern file. Its examples of texts to mask and to keep are for the tests.
pub(super) const PATTERNS_TEXT: &str = include_str!("patterns.toml");

/// The parsed pattern file; `None` if it is invalid, which a test rules out.
pub(super) static PATTERNS: LazyLock<Option<PatternsFile>> =
    LazyLock::new(|| toml::from_str(PATTERNS_TEXT).ok());

#[derive(Debug, Deserialize)]
pub(super) struct PatternsFile {
    pub(super) pattern: Vec<Pattern>,
    pub(super) named: NamedSecrets,
}

/// How one kind of secret is recognized, by its form or its context.
#[derive(Debug, Deserialize)]
pub(super) struct Pattern {
    /// Regular expression. The secret is the whole match, or its group `secret`.
    pub(super) find: String,
    /// Every match contains one of these words. The list may be empty if every match starts with one of a few words.
    #[serde(default)]
    pub(super) holds: Vec<String>,
    /// A match that starts like this is not a secret.
    pub(super) unless: Option<String>,
    /// Whether the pattern matches only at the start of a word.
    #[serde(default)]
    pub(super) border: bool,
    /// Whether it matches only if the characters of the secret look random.
    #[serde(default)]
    pub(super) random: bool,
    /// Whether it matches only if the characters look random and are of both cases.
    #[serde(default)]
    pub(super) both_cases: bool,
}

impl Pattern {
    /// The whole regular expression, with the group `secret`. Word boundaries are those of ASCII, because Unicode's make the library slow
    /// on every text with a non-ASCII letter.
    pub(super) fn expression(&self) -> String {
        let border = if self.border { r"(?-u:\b)" } else { "" };
        let group = if self.find.contains("(?<secret>") { "?:" } else { "?<secret>" };
        format!("{border}({group}{})", self.find)
    }

    /// Words of which every match contains one, in upper or lower case. Never empty: a test checks this.
    pub(super) fn words(&self) -> Vec<String> {
        if self.holds.is_empty() { self.prefixes() } else { self.holds.clone() }
    }

    /// The literal texts that matches start with, up to the place where more than three characters are possible; empty if matches can start
    /// with many texts.
    pub(super) fn prefixes(&self) -> Vec<String> {
        // in lower case only, because otherwise each spelling would be a prefix of its own
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

/// Names that mark the value after them as a secret.
#[derive(Debug, Deserialize)]
pub(super) struct NamedSecrets {
    /// Regular expressions for parts of such names.
    pub(super) names: Vec<String>,
    /// Words that a name which marks a secret consists of or ends with.
    pub(super) words: Vec<String>,
    /// Some of `words`: after such a name, a plain word is a setting and not a secret.
    pub(super) settings: Vec<String>,
    /// Endings of names with values that are not secret.
    pub(super) harmless: Vec<String>,
    /// Values that mean "none".
    pub(super) nothing: Vec<String>,
}
