//! Masks values after a name that marks them as secret: `DB_PASSWORD=...`, `--token ...`, `"client_secret": "..."`.
//!
//! Such names also occur in compiler messages (`unexpected token: identifier`), so the value is checked as well: after `=` or an option
//! nearly every value is secret, after a colon and after `is` only values that are not words. In brackets, after `==` and after `$` there may be types,
//! conditions and variables; there only values with letters and digits are secret, because types and most variables do not mix them.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

use super::{
    MASK,
    cut::is_opaque,
    data::{NamedSecrets, PATTERNS},
};

/// First characters of types, calls, lists and templates, which are no secrets.
const BRACKETS: [char; 5] = ['<', '{', '(', '[', '='];

/// Least length of a secret, bytes.
const MIN_SECRET_BYTES: usize = 4;
/// Least length of a secret after a colon, bytes: in a sentence, short values are words.
const MIN_IN_A_SENTENCE: usize = 6;
/// Least length of a secret after `token is`, bytes: compilers write shorter names of tokens there.
const MIN_OPAQUE_IN_A_SENTENCE: usize = 20;

/// Number of bytes around a name and its value that are checked.
const CHECKED_BYTES: usize = 64;

static NAME_PATTERNS: LazyLock<Option<NamePatterns>> =
    LazyLock::new(|| NamePatterns::new(&PATTERNS.as_ref()?.named).ok());

struct NamePatterns {
    /// Matches a name, a separator, and the first character of the value.
    pairs: Regex,
    /// Matches a name that marks a value as secret.
    secret: Regex,
    /// Matches a name after which every value is secret, whatever it looks like.
    password: Regex,
    /// Matches a name and separator, for names that must be at the start of a word.
    at_a_border: Regex,
    named: &'static NamedSecrets,
}

impl NamePatterns {
    fn new(named: &'static NamedSecrets) -> Result<Self, regex::Error> {
        let (names, words) = (named.names.join("|"), named.words.join("|"));
        Ok(Self {
            pairs: Regex::new(&format!(
                r#"(?ix)(?<name> (?:{names}) s? (?:(?:[_.\-]|(?-i:[A-Z]))[a-z0-9_.\-]{{0,40}})? | (?:(?-u:\b)|_)(?:{words}) )
                (?<between> ["']? \s{{0,4}} (?:=>|:=|={{1,3}}|:) \s{{0,4}}
                | (?:\s{{1,4}} (?:for|of|für) \s{{1,4}} [^\s:=]{{1,40}})? (?: \s{{0,4}} : | \s{{1,4}} (?:is|was|ist|est|es) (?:\s{{1,4}} (?:now|set\s{{1,4}}to))? \s?:?) \s{{1,4}}
                | \s{{1,4}}) (?<first> \S)"#
            ))?,
            secret: Regex::new(&format!(r"(?i){names}|(?:^|[_.\-])(?:{words}|pwd)$"))?,
            password: Regex::new(
                r"(?i)(?:pass(?:wor[dt]|wd|phrase|code|e)|kennwort|wachtwoord|contrase[ñn]a|senha)$",
            )?,
            at_a_border: Regex::new(&format!(r#"(?i)\A(?:{words})["']?\s{{0,4}}[:=]"#))?,
            named,
        })
    }
}

#[cfg(test)]
pub(super) fn patterns_compile() -> bool {
    NAME_PATTERNS.is_some()
}

/// Whether a text starts with a name that must be at the start of a word.
pub(super) fn begins_secret_name(text: &str) -> bool {
    NAME_PATTERNS.as_ref().is_some_and(|names| names.at_a_border.is_match(text))
}

/// Which values after a name that marks a secret are secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretValues {
    /// Nearly all values after `=`.
    All,
    /// Only values that are not words: a word may be a setting of a package (`auth=munge`).
    NoWords,
}

/// Replaces secret values after a name in a text by the mask.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    mask_and_count(text, SecretValues::All).0
}

/// Like [`mask`], but only for values that are not words.
pub(super) fn mask_no_words(text: &str) -> Cow<'_, str> {
    mask_and_count(text, SecretValues::NoWords).0
}

/// Like [`mask`]; also returns how many bytes were checked besides the search itself, which takes linear time.
pub(super) fn mask_and_count(text: &str, values: SecretValues) -> (Cow<'_, str>, usize) {
    let Some(names) = NAME_PATTERNS.as_ref() else { return (Cow::Borrowed(text), 0) };
    let (mut at, mut kept, mut looked_at) = (0, 0, 0_usize);
    let mut masked = String::new();
    // a value that is not secret can be the name of the next pair, as in `token: password=...`
    while let Some(found) = names.pairs.captures_at(text, at) {
        let Some(first) = found.name("first") else { break };
        at = first.start();
        let rest = text.get(at..).unwrap_or_default();
        looked_at = looked_at.saturating_add(2 * CHECKED_BYTES);
        if names.is_secret_value(&found, text, rest, values) {
            masked.push_str(text.get(kept..at).unwrap_or_default());
            masked.push_str(MASK);
            let length = value_length(rest);
            looked_at = looked_at.saturating_add(length);
            at = at.saturating_add(length);
            kept = at;
        }
    }
    if kept == 0 {
        return (Cow::Borrowed(text), looked_at);
    }
    masked.push_str(text.get(kept..).unwrap_or_default());
    (Cow::Owned(masked), looked_at)
}

/// Length of the value that a text starts with, in bytes: up to its closing quote, or to a space.
fn value_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let mut escaped = false;
    let end = text.char_indices().skip(1).find_map(|(at, letter)| match quote {
        Some(_) if escaped => {
            escaped = false;
            None
        }
        Some(_) if letter == '\\' => {
            escaped = true;
            None
        }
        Some(quote) if letter == quote => Some(at.saturating_add(1)),
        Some(_) => matches!(letter, '\r' | '\n').then_some(at),
        None => letter.is_whitespace().then_some(at),
    });
    end.unwrap_or(text.len())
}

/// Whether the text before a name is the beginning of an option: `--my-`.
fn is_option(before: &str) -> bool {
    let mut near = before.len().saturating_sub(CHECKED_BYTES)..=before.len();
    let from = near.find(|at| before.is_char_boundary(*at)).unwrap_or(0);
    let near = before.get(from..).unwrap_or_default();
    let word = near.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
    near.get(word.len()..).is_some_and(|word| word.starts_with("--"))
}

impl NamePatterns {
    /// Whether the value at the start of `rest` is a secret. Only the beginning of the value is checked, because the next pair can be
    /// inside it, and the time must stay linear in the text.
    fn is_secret_value(&self, found: &Captures<'_>, text: &str, rest: &str, values: SecretValues) -> bool {
        let part = |name| found.name(name).map_or("", |part| part.as_str());
        let (name, between) = (part("name"), part("between"));
        let near = (0..=CHECKED_BYTES.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at));
        let near = rest.get(..near.unwrap_or(0)).unwrap_or_default();
        let value = near.get(..value_length(near)).unwrap_or_default();
        let bare = value.trim_matches(|c| c == '"' || c == '\'');
        let mark = between.trim();
        let word_is_setting = values == SecretValues::NoWords
            || self
                .named
                .settings
                .iter()
                .any(|setting| name.to_ascii_lowercase().ends_with(setting.as_str()));
        if self.is_harmless(name, bare) || mark.ends_with("==") && !is_secret_inside(bare) {
            return false;
        }
        if mark.is_empty() {
            let before = found.get(0).and_then(|whole| text.get(..whole.start()));
            return before.is_some_and(is_option) && !bare.starts_with('-');
        }
        if mark.starts_with(char::is_alphabetic) {
            let looks_secret = if self.password.is_match(name) {
                is_not_a_word(bare)
            } else {
                bare.len() >= MIN_OPAQUE_IN_A_SENTENCE && is_opaque(bare)
            };
            return bare.len() >= MIN_IN_A_SENTENCE && looks_secret && !bare.starts_with(BRACKETS);
        }
        let in_json = mark.starts_with(['"', '\'']);
        let is_sentence = mark.ends_with(':') && between.ends_with(char::is_whitespace) && !in_json;
        !is_sentence && !word_is_setting
            || bare.len() >= MIN_IN_A_SENTENCE && is_not_a_word(bare) && !bare.starts_with(BRACKETS)
    }

    fn is_harmless(&self, name: &str, value: &str) -> bool {
        let name = name.trim_end_matches(['-', '.', '_']).to_ascii_lowercase();
        let harmless = |end: &String| {
            name.strip_suffix(end.as_str()).is_some_and(|rest| rest.ends_with(['_', '-', '.']))
        };
        let is_short_number =
            value.len() < MIN_IN_A_SENTENCE && value.bytes().all(|byte| byte.is_ascii_digit());
        let word = value.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        value.len() < MIN_SECRET_BYTES
            || is_short_number
            || is_version(value)
            || is_file_position(&name)
                && value.bytes().all(|byte| byte.is_ascii_digit() || b":,.()".contains(&byte))
            || value.starts_with(BRACKETS) && !is_secret_inside(value)
            || is_placeholder(value)
            || self.named.nothing.iter().any(|nothing| word.eq_ignore_ascii_case(nothing))
            || self.named.harmless.iter().any(harmless)
    }
}

/// Whether a name is a file name with line and column: `token.c:88:12`.
fn is_file_position(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    (1..=4).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a value starts like a version: with two numbers.
fn is_version(value: &str) -> bool {
    value.split('.').take(2).filter(|part| part.parse::<u32>().is_ok()).count() == 2
}

/// Whether a value in brackets or after a comparison is a secret: `{abc123}`, `<abc123>`, `(hunter2)`. Types, calls, lists and templates
/// occur there too, so only a value counts that has letters and digits, has no brackets or quotes of its own, and is not a version.
fn is_secret_inside(value: &str) -> bool {
    let inside = value.trim_start_matches(BRACKETS).trim_matches(['"', '\'']);
    let inside = inside.trim_end_matches(['>', '}', ')', ']', ',', ';', '.', '"', '\'']);
    let has = |is: fn(&u8) -> bool| inside.bytes().any(|byte| is(&byte));
    inside.len() >= MIN_IN_A_SENTENCE
        && !is_version(inside)
        && !inside.contains(['<', '{', '(', '[', '>', '}', ')', ']', '"', '\''])
        && (has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) || is_opaque(inside))
}

/// Whether this can be the name of a variable. A name in capitals can. In any other name no digit may precede a letter, because passwords
/// are often made from words that way.
fn is_variable(name: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let mut pairs = name.as_bytes().windows(2);
    name.bytes().all(is_capital)
        || !pairs.any(
            |pair| matches!(pair, [digit, letter] if digit.is_ascii_digit() && letter.is_ascii_alphabetic()),
        )
}

/// Whether the whole value is a placeholder: `$NAME`, `${NAME}`, `$(command)`, `%NAME%`, `%s`, `***`.
fn is_placeholder(value: &str) -> bool {
    let end = value.trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '\\']);
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(name) = end.strip_prefix('$') {
        return name.starts_with(['{', '(', '$']) || is_name(name) && is_variable(name);
    }
    if let Some(name) = end.strip_prefix('%') {
        return name.len() <= 3 || name.strip_suffix('%').is_some_and(is_name);
    }
    end.starts_with('*') && end.chars().all(|c| c == '*')
}

/// Whether a value is neither a word of a sentence nor an identifier.
fn is_not_a_word(value: &str) -> bool {
    let end = value.trim_end_matches(['.', ',', ';', ':', ')', ']', '}']);
    let odd = |c: char| c.is_ascii_digit() || !c.is_ascii_alphanumeric() && !"_:()[]<>'`".contains(c);
    end.chars().any(odd) || is_opaque(end)
}

/// Whether a label with this name holds a secret: after the name of a password every value is secret, after other names only values that
/// are not words.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    NAME_PATTERNS.as_ref().is_some_and(|names| {
        names.secret.is_match(name)
            && !names.is_harmless(name, value)
            && (names.password.is_match(name) || value.len() >= MIN_IN_A_SENTENCE && is_not_a_word(value))
    })
}
