//! Secrets in foreign text are masked before it is judged or kept.
//!
//! What builds, hooks and callers send can hold a token that a build printed. GitLab masks what it knows to be secret, and only in
//! its own log; here the shape decides. Pure, in time linear in the text, and of no influence on the class of a failure.
//!
//! | what | recognized by | module |
//! |---|---|---|
//! | tokens of some hundred issuers; signed tokens (JWT) | how they begin | `shapes` |
//! | what stands in a header `Authorization` and the like, in an address before `@`, behind `docker login -p` | its place | `shapes` |
//! | values of a name such as `DB_PASSWORD`, `--token`, `"secret":` | the name before them | `named` |
//! | private keys | their first and last lines | `blocks` |
//! | the rest of a secret that the cut of a log went through | that it is first | `cut` |
//!
//! All patterns and names are in `patterns.toml`, each with texts that it must hide and texts that it must keep.
//!
//! Not recognized is a secret without a shape, a name or a place: a bare password in a sentence.

mod blocks;
mod cut;
mod data;
mod named;
mod shapes;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use crate::domain::{Attempt, Evidence, Key, ListedRun, Phase};

/// What stands in the place of a secret.
const MASK: &str = "[MASKED]";

/// Control sequences of a terminal, NUL, and spaces without width: readers of a log leave them out, which would join a secret that they cut in two.
static INVISIBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z])|\x00|[\u{200b}-\u{200d}\u{2060}\u{feff}])+").ok()
});

/// The text without secrets; without what is not visible, too, if that stood in one or beside one.
pub fn text(text: &str) -> Cow<'_, str> {
    let border = |found: &Captures<'_>| if parts_words(text, found) { " " } else { "" };
    let plain = INVISIBLE.as_ref().map_or(Cow::Borrowed(text), |all| all.replace_all(text, border));
    let Cow::Owned(plain) = plain else { return visible(text) };
    if let Cow::Owned(masked) = visible(&plain) {
        return Cow::Owned(masked);
    }
    // one that is only seen where the colour parts it from a word
    visible(text)
}

/// Bytes before and behind what is not visible that say whether it parts two words: more than most secrets have.
const AROUND: usize = 160;

/// Whether nothing but this, which is not visible, parts a word from a secret that counts at the border of a word only. The rest of a secret
/// can begin as another one does: then it parts words if less is hidden with both joined.
fn parts_words(text: &str, found: &Captures<'_>) -> bool {
    let Some(invisible) = found.get(0) else { return false };
    let before = text.get(..invisible.start()).unwrap_or_default();
    let behind = text.get(invisible.end()..).unwrap_or_default();
    let ends_in_word =
        before.chars().next_back().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !ends_in_word || !(shapes::begins(behind) || named::begins(behind)) {
        return false;
    }
    let start = before.floor_char_boundary(before.len().saturating_sub(AROUND));
    let before =
        before.get(start..).unwrap_or_default().rsplit(char::is_whitespace).next().unwrap_or_default();
    let behind = behind.get(..behind.floor_char_boundary(AROUND)).unwrap_or_default();
    let behind = behind.split(char::is_whitespace).next().unwrap_or_default();
    let without = |text| INVISIBLE.as_ref().map_or(Cow::Borrowed(text), |all| all.replace_all(text, ""));
    let (before, behind) = (without(before), without(behind));
    let left = |text: &str| visible(text).replace(MASK, "").len();
    // the space between them hides nothing
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

/// The end of a log without secrets, and without the rest of one at its beginning.
pub fn log_tail(tail: &str) -> String {
    text(&cut::mask(tail)).into_owned()
}

/// All that a caller says of an ended attempt, without secrets.
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

/// What is built, without secrets: the one function for every key that is kept. Words behind a name of a secret
/// (`secret=vault`) stay in variants: a prediction is asked for by the same words.
pub fn key(key: &mut Key) {
    let Key { project, stack, package, version, variants, compiler, compiler_version, .. } = key;
    let texts = [project, stack, package, version, compiler, compiler_version];
    let rest = [&mut key.arch, &mut key.build_system, &mut key.git_ref, &mut key.owner];
    texts.into_iter().chain(rest).for_each(mask);
    let shown: [fn(&str) -> Cow<'_, str>; 3] = [blocks::mask, shapes::mask, named::mask_no_words];
    if let Cow::Owned(masked) = shown.into_iter().fold(Cow::Borrowed(variants.as_str()), then) {
        *variants = masked;
    }
    for (name, value) in &mut key.labels {
        if named::is_secret(name, value) {
            MASK.clone_into(value);
        }
        mask(value);
    }
}

/// The opening of an attempt, without secrets.
pub fn attempt(attempt: &mut Attempt) {
    key(&mut attempt.key);
    mask(&mut attempt.opening.pool);
}

/// All texts in a value, without secrets. The names of its fields stay.
pub fn json(value: &mut Value) {
    match value {
        Value::String(string) => mask(string),
        Value::Array(values) => values.iter_mut().for_each(json),
        Value::Object(fields) => fields.values_mut().for_each(json),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Names of phases, which a build's output gives, without secrets.
pub fn phases(phases: &mut [Phase]) {
    for phase in phases {
        mask(&mut phase.name);
    }
}

/// One text, without secrets.
pub fn mask(value: &mut String) {
    if let Cow::Owned(masked) = text(value) {
        *value = masked;
    }
}
