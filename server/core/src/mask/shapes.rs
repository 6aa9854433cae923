//! Masks secrets that are recognized by their prefix or context, with the patterns of `patterns.toml`.

use std::{
    borrow::Cow,
    sync::{LazyLock, OnceLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{Captures, Regex};

use super::{
    MASK,
    data::{PATTERNS, Pattern},
};

/// How random a secret must look: the least number of adjacent pairs with characters of different kinds (upper case, lower case, digit),
/// per thousand. Random letters of both cases and digits reach 620, of one case and digits 300 to 470; capitalized words 200 to 380,
/// lower-case words with a version 50 to 100.
#[derive(Debug, Clone, Copy)]
struct Randomness {
    both_cases: usize,
    one_case: usize,
}

/// For secrets after a distinctive prefix.
const RANDOM_AFTER_DISTINCTIVE_PREFIX: Randomness = Randomness { both_cases: 300, one_case: 120 };
/// For secrets after any prefix. Hashes of one case are not secrets, so one case never suffices.
const RANDOM_AFTER_ANY_PREFIX: Randomness = Randomness { both_cases: 420, one_case: usize::MAX };

static SHAPES: LazyLock<Option<Shapes>> = LazyLock::new(|| Shapes::new(&PATTERNS.as_ref()?.pattern));

/// All patterns. One pass searches a text for the words that matches contain; most texts have few of these words, and only the patterns
/// with such a word are compiled and tried.
struct Shapes {
    word_search: AhoCorasick,
    /// Index of the pattern that each word belongs to.
    pattern_of_word: Vec<usize>,
    secret_forms: Vec<SecretShape>,
    /// Prefixes, in lower case, of secrets that match only at the start of a word.
    at_a_border: Vec<String>,
}

struct SecretShape {
    pattern: &'static Pattern,
    /// Whether the pattern has no words, so that it is always tried.
    always_tried: bool,
    compiled: OnceLock<Option<CompiledShape>>,
}

struct CompiledShape {
    pattern_regex: Regex,
    exception_regex: Option<Regex>,
    random: Option<Randomness>,
}

impl Shapes {
    fn new(patterns: &'static [Pattern]) -> Option<Self> {
        let numbered = patterns.iter().enumerate();
        let of_each =
            numbered.flat_map(|(at, pattern)| pattern.words().into_iter().map(move |word| (word, at)));
        let (words, of_words): (Vec<String>, Vec<usize>) =
            of_each.filter(|(word, _)| !word.is_empty()).unzip();
        let border = patterns.iter().filter(|pattern| pattern.border).flat_map(Pattern::prefixes);
        let table =
            AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).ascii_case_insensitive(true).build(words);
        Some(Self {
            word_search: table.ok()?,
            pattern_of_word: of_words,
            secret_forms: patterns.iter().map(SecretShape::new).collect(),
            at_a_border: border.filter(|begin| is_distinctive(begin)).collect(),
        })
    }

    /// The patterns that may match the text, in order.
    fn possible_shapes(&self, text: &str) -> impl Iterator<Item = &SecretShape> {
        let mut seen: Vec<bool> = self.secret_forms.iter().map(|shape| shape.always_tried).collect();
        for word in self.word_search.find_overlapping_iter(text) {
            let of = self.pattern_of_word.get(word.pattern().as_usize());
            if let Some(seen) = of.and_then(|at| seen.get_mut(*at)) {
                *seen = true;
            }
        }
        self.secret_forms.iter().zip(seen).filter_map(|(shape, seen)| seen.then_some(shape))
    }
}

/// Whether a prefix is distinctive, so that random letters do not start like this by chance.
fn is_distinctive(begin: &str) -> bool {
    begin.len() > 5 || begin.len() > 2 && !begin.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl SecretShape {
    fn new(pattern: &'static Pattern) -> Self {
        let always = pattern.holds.iter().any(String::is_empty);
        Self { pattern, always_tried: always, compiled: OnceLock::new() }
    }

    fn compile_once(&self) -> Option<&CompiledShape> {
        self.compiled.get_or_init(|| CompiledShape::new(self.pattern).ok()).as_ref()
    }
}

impl CompiledShape {
    fn new(pattern: &Pattern) -> Result<Self, regex::Error> {
        Ok(Self {
            pattern_regex: Regex::new(&pattern.expression())?,
            exception_regex: pattern.unless.as_deref().map(Regex::new).transpose()?,
            random: pattern
                .both_cases
                .then_some(RANDOM_AFTER_ANY_PREFIX)
                .or_else(|| pattern.random.then_some(RANDOM_AFTER_DISTINCTIVE_PREFIX)),
        })
    }

    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masks = false;
        let masked = self.pattern_regex.replace_all(text, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |whole| whole.as_str());
            if !self.is_secret(found, whole) {
                return whole.to_owned();
            }
            masks = true;
            without_secret(found)
        });
        if masks { masked } else { Cow::Borrowed(text) }
    }

    fn is_secret(&self, found: &Captures<'_>, whole: &str) -> bool {
        !self.exception_regex.as_ref().is_some_and(|unless| unless.is_match(whole))
            && self.random.is_none_or(|random| {
                found.name("secret").is_some_and(|secret| random.is_met_by(secret.as_str()))
            })
    }
}

impl Randomness {
    /// Whether the characters of the text change their kind often enough to look random.
    fn is_met_by(self, secret: &str) -> bool {
        let kind = |byte: &u8| match byte {
            b'a'..=b'z' => 1_u8,
            b'A'..=b'Z' => 2,
            b'0'..=b'9' => 4,
            _ => 0,
        };
        let kinds: Vec<u8> = secret.as_bytes().iter().map(kind).collect();
        let there = kinds.iter().fold(0, |there, kind| there | kind);
        let pairs = || kinds.windows(2).filter(|pair| !pair.contains(&0));
        let changes = pairs().filter(|pair| pair.first() != pair.last()).count();
        let least = if there & 3 == 3 { self.both_cases } else { self.one_case };
        there & 4 != 0
            && there & 3 != 0
            && changes.saturating_mul(1000) >= pairs().count().saturating_mul(least)
    }
}

/// Whether all patterns compile and have words to search for. Only tests call this, so that an error in a pattern does not stay unnoticed.
#[cfg(test)]
pub(super) fn patterns_compile() -> bool {
    let is_one = |shape: &SecretShape| shape.compile_once().is_some() && !shape.pattern.words().is_empty();
    SHAPES.as_ref().is_some_and(|shapes| shapes.secret_forms.iter().all(is_one))
}

/// Whether a text starts like a secret that matches only at the start of a word.
pub(super) fn begins_secret(text: &str) -> bool {
    let begins =
        |begin: &String| text.get(..begin.len()).is_some_and(|there| there.eq_ignore_ascii_case(begin));
    SHAPES.as_ref().is_some_and(|shapes| shapes.at_a_border.iter().any(begins))
}

/// Replaces secrets in a text that match a pattern by the mask.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    let Some(shapes) = SHAPES.as_ref() else { return Cow::Borrowed(text) };
    let mut masked = Cow::Borrowed(text);
    for shape in shapes.possible_shapes(text).filter_map(SecretShape::compile_once) {
        if let Cow::Owned(changed) = shape.mask(&masked) {
            masked = Cow::Owned(changed);
        }
    }
    masked
}

/// The match with its group `secret` replaced by the mask.
fn without_secret(found: &Captures<'_>) -> String {
    let Some((whole, secret)) = found.get(0).zip(found.name("secret")) else { return MASK.to_owned() };
    let text = whole.as_str();
    let before = text.get(..secret.start().saturating_sub(whole.start())).unwrap_or_default();
    let behind = text.get(secret.end().saturating_sub(whole.start())..).unwrap_or_default();
    format!("{before}{MASK}{behind}")
}
