//! Masks secrets in untrusted text, before it is judged or stored.
//!
//! Output of builds, hooks and callers may contain tokens. GitLab masks the variables that it knows, and only in its own log; here secrets
//! are recognized by their form. Masking is pure, takes time linear in the text, and does not change how a failure is classified.
//!
//! | what | recognized by | module |
//! |---|---|---|
//! | tokens of some hundred issuers; signed tokens (JWT) | how they begin | `shapes` |
//! | credentials in an `Authorization` header and the like, in a URL before `@`, after `docker login -p` | their context | `shapes` |
//! | values of a name such as `DB_PASSWORD`, `--token`, `"secret":` | the name before them | `named` |
//! | private keys | their first and last lines | `blocks` |
//! | the remainder of a secret at which a log was cut | its position at the start | `cut` |
//!
//! All patterns and names are in `patterns.toml`, each with texts that it must mask and texts that it must keep.
//!
//! A secret without a typical form, name or context is not recognized, for example a bare password in a sentence.

mod blocks;
mod cut;
mod data;
mod named;
mod shapes;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, mem, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use crate::domain::{Attempt, Evidence, Key, LargestProcess, ListedRun, Phase, Rescue};

/// The text that replaces a secret.
const MASK: &str = "[MASKED]";

/// Matches terminal control sequences, NUL and zero-width spaces. They can split a secret in two; viewers of a log drop them, so that the
/// secret would be visible.
static INVISIBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z])|\x00|[\u{200b}-\u{200d}\u{2060}\u{feff}])+").ok()
});

/// The text with secrets masked. Invisible characters inside or next to a secret are removed too.
pub fn text(text: &str) -> Cow<'_, str> {
    let border = |found: &Captures<'_>| if separates_words(text, found) { " " } else { "" };
    let plain = INVISIBLE.as_ref().map_or(Cow::Borrowed(text), |all| all.replace_all(text, border));
    let Cow::Owned(plain) = plain else { return visible(text) };
    if let Cow::Owned(masked) = visible(&plain) {
        return Cow::Owned(masked);
    }
    // a colour sequence may separate a secret from the word before it, so the text with the sequences is searched too
    visible(text)
}

/// Number of bytes before and after an invisible sequence that are searched to decide whether it separates two words: more than most
/// secrets have.
const CONTEXT_BYTES: usize = 160;

/// Whether an invisible sequence separates a word from a secret that is only found at the start of a word. The sequence may also split one
/// secret, and the second part of a secret can look like the start of another one. So it counts as a separator only if joining both parts
/// would not mask more.
fn separates_words(text: &str, found: &Captures<'_>) -> bool {
    let Some(invisible) = found.get(0) else { return false };
    let before = text.get(..invisible.start()).unwrap_or_default();
    let behind = text.get(invisible.end()..).unwrap_or_default();
    let ends_in_word =
        before.chars().next_back().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !ends_in_word || !(shapes::begins_secret(behind) || named::begins_secret_name(behind)) {
        return false;
    }
    let start = before.floor_char_boundary(before.len().saturating_sub(CONTEXT_BYTES));
    let before =
        before.get(start..).unwrap_or_default().rsplit(char::is_whitespace).next().unwrap_or_default();
    let behind = behind.get(..behind.floor_char_boundary(CONTEXT_BYTES)).unwrap_or_default();
    let behind = behind.split(char::is_whitespace).next().unwrap_or_default();
    let without = |text| INVISIBLE.as_ref().map_or(Cow::Borrowed(text), |all| all.replace_all(text, ""));
    let (before, behind) = (without(before), without(behind));
    let left = |text: &str| visible(text).replace(MASK, "").len();
    // the space that is inserted masks nothing by itself
    left(&format!("{before} {behind}")) <= left(&format!("{before}{behind}")) + 1
}

fn visible(text: &str) -> Cow<'_, str> {
    let steps: [fn(&str) -> Cow<'_, str>; 3] = [blocks::mask, shapes::mask, named::mask];
    steps.into_iter().fold(Cow::Borrowed(text), |text, step| then(text, step))
}

fn then(text: Cow<'_, str>, step: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => match step(&text) {
            Cow::Owned(changed) => Cow::Owned(changed),
            Cow::Borrowed(_same) => Cow::Owned(text),
        },
    }
}

/// The end of a log with secrets masked, and with what may be the rest of a secret at its start.
pub fn log_tail(tail: &str) -> String {
    text(&cut::mask(tail)).into_owned()
}

/// Evidence from a caller, with secrets masked.
pub fn evidence(mut evidence: Evidence) -> Evidence {
    evidence.log_tail = log_tail(&evidence.log_tail);
    for reason in [&mut evidence.failure_reason, &mut evidence.container_reason, &mut evidence.pod_reason] {
        mask(reason);
    }
    key(&mut evidence.key);
    for ListedRun { name, status, failure_reason, .. } in &mut evidence.listed {
        [name, status, failure_reason].into_iter().for_each(mask);
    }
    evidence
}

/// Masks secrets in a key; every stored key goes through this function. In variants, plain words after a secret's name (`secret=vault`)
/// stay, because predictions are requested with the same words.
pub fn key(key: &mut Key) {
    let variants = mem::take(&mut key.variants);
    key.texts_mut().into_iter().for_each(mask);
    let shown: [fn(&str) -> Cow<'_, str>; 3] = [blocks::mask, shapes::mask, named::mask_no_words];
    key.variants = match shown.into_iter().fold(Cow::Borrowed(variants.as_str()), then) {
        Cow::Owned(masked) => masked,
        Cow::Borrowed(_) => variants,
    };
    for (name, value) in &mut key.labels {
        if named::is_secret(name, value) {
            MASK.clone_into(value);
        }
        mask(value);
    }
}

/// Masks secrets in the fields that an agent sends when an attempt opens.
pub fn attempt(attempt: &mut Attempt) {
    key(&mut attempt.key);
    mask(&mut attempt.opening.pool);
}

/// Masks secrets in all strings of a JSON value; field names stay.
pub fn json(value: &mut Value) {
    match value {
        Value::String(string) => mask(string),
        Value::Array(values) => values.iter_mut().for_each(json),
        Value::Object(fields) => fields.values_mut().for_each(json),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks secrets in the names of phases, which come from the build's output.
pub fn phases(phases: &mut [Phase]) {
    for phase in phases {
        mask(&mut phase.name);
    }
}

/// Masks secrets in the names of a process and its file, and in what rescue wrote.
pub fn processes(largest: Option<&mut LargestProcess>, rescue: Option<&mut Rescue>) {
    let names = largest.into_iter().flat_map(|process| [&mut process.program, &mut process.file]);
    names.chain(rescue.map(|rescue| &mut rescue.gave_up)).for_each(mask);
}

/// Masks secrets in one string.
pub fn mask(value: &mut String) {
    if let Cow::Owned(masked) = text(value) {
        *value = masked;
    }
}
