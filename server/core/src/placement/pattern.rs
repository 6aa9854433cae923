//! Regular expressions from the operator: anchored, of limited compiled size, and matched in time linear in the text.

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{
    Hir,
    literal::{ExtractKind, Extractor, Literal},
};

use super::{backtracking, subject};

/// Longest expression, bytes.
const PATTERN_BYTES: usize = 4096;
/// Most bytes of a compiled expression.
const COMPILED_BYTES: usize = 512 << 10;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    regex: Regex,
    hir: Hir,
}

impl Pattern {
    /// Compiles an expression that must match the whole text, so that an allow-list with `spack/.*` does not admit `evil-spack/x`.
    pub(super) fn for_whole_text(text: &str) -> Result<Self, String> {
        Self::compile(text, &format!(r"\A(?:{text})\z"))
    }

    /// Compiles an expression that must match from the start of the text, like Python's `re.match`.
    pub(super) fn start(text: &str) -> Result<Self, String> {
        Self::compile(text, &format!(r"\A(?:{text})"))
    }

    fn compile(text: &str, anchored: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES {
            return Err(format!("has {} bytes, at most {PATTERN_BYTES} are allowed", text.len()));
        }
        // the text is parsed without anchors first, because an unbalanced bracket in it could otherwise end their group
        let hir = regex_syntax::parse(text).map_err(|error| last_error_line(&error.to_string()))?;
        let regex = RegexBuilder::new(anchored).size_limit(COMPILED_BYTES).build();
        let regex = regex.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("takes more than {COMPILED_BYTES} bytes when it is compiled; repeat less")
            }
            other => last_error_line(&other.to_string()),
        })?;
        Ok(Self { text: text.to_owned(), regex, hir })
    }

    /// The expression as the operator wrote it.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Whether an engine that backtracks, such as Python's, may take exponential time; true if unknown.
    pub(super) fn may_backtrack(&self) -> bool {
        backtracking::may_be_exponential(&self.text)
    }

    /// Whether no text of at most `bytes` bytes can match.
    pub(super) fn never_within(&self, bytes: usize) -> bool {
        self.hir.properties().minimum_len().is_none_or(|least| least > bytes)
    }

    /// Whether every text matches; false if unknown.
    pub(super) fn is_any(&self) -> bool {
        matches!(self.text.as_str(), ".*" | "(?s).*")
    }

    /// All texts that the expression can match, if there are only a few.
    pub(super) fn matching_texts(&self) -> Option<Vec<String>> {
        let words = Extractor::new().extract(&self.hir);
        let words = words.literals().filter(|literals| literals.iter().all(Literal::is_exact))?;
        let texts = words.iter().map(|word| String::from_utf8(word.as_bytes().to_vec()).ok());
        texts.collect()
    }

    /// Whether this expression matches everything that `other` matches; false if unknown.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if self.text == other.text || self.is_any() {
            return true;
        }
        let texts = other.matching_texts().unwrap_or_default();
        !texts.is_empty() && texts.iter().all(|text| self.is_match(text))
    }

    /// Whether no text matches both expressions; false if unknown.
    pub(super) fn never_overlaps(&self, other: &Self) -> bool {
        let none = |texts: Option<Vec<String>>, pattern: &Self| {
            texts.is_some_and(|texts| texts.iter().all(|text| !pattern.is_match(text)))
        };
        if none(self.matching_texts(), other) || none(other.matching_texts(), self) {
            return true;
        }
        let (Some(own), Some(others)) =
            (self.literal_ends(ExtractKind::Prefix), other.literal_ends(ExtractKind::Prefix))
        else {
            return false;
        };
        own.iter().all(|one| others.iter().all(|other| !one.starts_with(other) && !other.starts_with(one)))
    }

    /// The architectures in the names that the expression can match; `None` if unknown.
    pub(super) fn arch_families(&self) -> Option<Vec<&'static str>> {
        // an architecture is at the end of a name
        let families: Vec<&str> =
            self.literal_ends(ExtractKind::Suffix)?.iter().map(|end| subject::family_of_arch(end)).collect();
        (!families.contains(&"")).then_some(families)
    }

    /// Literal prefixes or suffixes of all matching texts; `None` if unknown.
    fn literal_ends(&self, kind: ExtractKind) -> Option<Vec<String>> {
        let words = Extractor::new().kind(kind).extract(&self.hir);
        let words = words.literals().filter(|words| !words.is_empty())?;
        words.iter().map(|word| String::from_utf8(word.as_bytes().to_vec()).ok()).collect()
    }
}

/// The last line of the parser's error message; the lines before it mark the position.
fn last_error_line(error: &str) -> String {
    let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(error).trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_patterns_list_their_matching_texts() {
        let of = |text| Pattern::for_whole_text(text).unwrap().matching_texts();
        assert_eq!(of("x86_64|arm64").unwrap(), ["x86_64", "arm64"]);
        assert_eq!((of("linux-.*"), of("a+")), (None, None));
    }

    #[test]
    fn a_pattern_matches_only_the_whole_text() {
        let spack = Pattern::for_whole_text("spack/.*").unwrap();
        assert!(spack.is_match("spack/packages") && !spack.is_match("evil-spack/x"));
        let either = Pattern::for_whole_text("a|b").unwrap();
        assert!(either.is_match("a") && !either.is_match("ax") && !either.is_match("xb"));
        assert!(Pattern::for_whole_text("a)|(?:b").is_err());
        assert!(Pattern::start("@asahi/kernel").unwrap().is_match("@asahi/kernel/fedora/kernel-16k"));
    }

    #[test]
    fn an_expression_that_explodes_is_refused() {
        let error = Pattern::for_whole_text("((a{100}){100}){100}").unwrap_err();
        assert!(error.contains("repeat less"), "{error}");
        assert!(Pattern::for_whole_text(&"x".repeat(5000)).unwrap_err().contains("at most 4096"));
        assert!(Pattern::for_whole_text(r"(?=a)b").unwrap_err().contains("look-around"));
    }

    #[test]
    fn expressions_are_apart_only_where_that_is_known() {
        let of = |text| Pattern::for_whole_text(text).unwrap();
        assert!(of("team/.*").never_overlaps(&of("spack/.*")) && of("a|b").never_overlaps(&of("[c-e].*")));
        assert!(!of("team/.*").never_overlaps(&of("team/x")) && !of("t.*").never_overlaps(&of("team/.*")));
        assert!(!of(".*x").never_overlaps(&of(".*y")) && !of("").never_overlaps(&of(".*")));
        assert_eq!(of(".*-(aarch64|neoverse_v1)").arch_families(), Some(vec!["aarch64", "aarch64"]));
        assert_eq!((of("linux-.*").arch_families(), of(".*64").arch_families()), (None, None));
    }

    #[test]
    fn covering_is_claimed_only_where_it_is_known() {
        let of = |text| Pattern::for_whole_text(text).unwrap();
        assert!(of(".*").covers(&of("[a-z]+")) && of("k.*").covers(&of("kernel|kde")));
        assert!(!of("k.*").covers(&of("kernel|gcc")) && !of("k.*").covers(&of("ke.*")));
        assert!(
            of(r"[^\s\S]").never_within(256) && of("a{300}").never_within(256) && !of("a*").never_within(0)
        );
    }
}
