//! Secrets in foreign text are masked before it is judged or kept.
//!
//! What builds, hooks and callers send can hold a token that a build printed. GitLab masks what it knows to be secret, and only in
//! its own log; here the shape decides. Pure, in time linear in the text, and of no influence on the class of a failure.
//!
//! | what | recognized by | module |
//! |---|---|---|
//! | tokens of GitHub, GitLab, AWS, Google, Slack, npm, `PyPI` and others; signed tokens (JWT) | how they begin | `shapes` |
//! | what stands in a header `Authorization` and the like, in an address before `@`, in a signature of an address | its place | `shapes` |
//! | values of a name such as `DB_PASSWORD`, `--token`, `"secret":` | the name before them | `named` |
//! | private keys | their first and last lines | `blocks` |
//! | the rest of a secret that the cut of a log went through | that it is first | `cut` |
//!
//! Not recognized is a secret without a shape, a name or a place: a bare password in a sentence.

mod blocks;
mod cut;
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

/// What a terminal is told, NUL, and spaces without width: whoever reads a log leaves them out, which would join a secret that they cut in two.
static INVISIBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z])|\x00|[\u{200b}-\u{200d}\u{2060}\u{feff}])+").ok()
});

/// How those secrets and names begin that count at the border of a word only.
const BORDERED: &str = r#"(?x-u)\A (?: hf_ | hv[sbr]\. | cio[A-Za-z0-9]{32} | [rs]k_(?:live|test)_ | SG\. | sk-
    | eyJ(?:hbGci|0eXAi|raWQi)
    | (?i: bearer\s | login\s | x-api-key | (?:set-)?cookie
        | (?:private|job|deploy|x-auth|x-vault|x-gitlab|x-amz-security)-token
        | (?:pass|pat|auth|jwt|psk)["']?\s{0,4}[:=]))"#;
static AT_A_BORDER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(BORDERED).ok());

/// The text without secrets; without what is not visible, too, if that stood in one or beside one.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let border = |found: &Captures<'_>| if parts_words(text, found) { " " } else { "" };
    let plain = INVISIBLE.as_ref().map_or(Cow::Borrowed(text), |all| all.replace_all(text, border));
    let Cow::Owned(plain) = plain else { return visible(text) };
    if let Cow::Owned(masked) = visible(&plain) {
        return Cow::Owned(masked);
    }
    // one that is only seen where the colour parts it from a word
    visible(text)
}

/// Whether nothing but this, which is not visible, parts a word from a secret that counts at the border of a word only.
fn parts_words(text: &str, found: &Captures<'_>) -> bool {
    let Some(invisible) = found.get(0) else { return false };
    let before = text.get(..invisible.start()).and_then(|before| before.chars().next_back());
    let behind = text.get(invisible.end()..).unwrap_or_default();
    before.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && AT_A_BORDER.as_ref().is_some_and(|all| all.is_match(behind))
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
pub(crate) fn log_tail(tail: &str) -> String {
    text(&cut::mask(tail)).into_owned()
}

/// All that a caller says of an ended attempt, without secrets.
pub(crate) fn evidence(mut said: Evidence) -> Evidence {
    said.log_tail = log_tail(&said.log_tail);
    for reason in [&mut said.failure_reason, &mut said.container_reason, &mut said.pod_reason] {
        mask(reason);
    }
    key(&mut said.key);
    for ListedRun { name, status, failure_reason, .. } in &mut said.listed {
        [name, status, failure_reason].into_iter().for_each(mask);
    }
    said
}

/// What is built, without secrets. Names that only look as if a secret followed (`secret=vault` in variants) stay: a prediction is
/// asked for by the same words.
pub(crate) fn key(key: &mut Key) {
    let Key { project, stack, package, version, variants, compiler, compiler_version, .. } = key;
    let texts = [project, stack, package, version, variants, compiler, compiler_version];
    let rest = [&mut key.arch, &mut key.build_system, &mut key.git_ref, &mut key.owner];
    texts.into_iter().chain(rest).for_each(by_shape);
    for (name, value) in &mut key.labels {
        if named::is_secret(name, value) {
            MASK.clone_into(value);
        }
        by_shape(value);
    }
}

/// The opening of an attempt, without secrets.
pub(crate) fn attempt(attempt: &mut Attempt) {
    key(&mut attempt.key);
    by_shape(&mut attempt.opening.pool);
}

/// All texts in a value, without secrets. The names of its fields stay.
pub(crate) fn json(value: &mut Value) {
    match value {
        Value::String(said) => mask(said),
        Value::Array(values) => values.iter_mut().for_each(json),
        Value::Object(fields) => fields.values_mut().for_each(json),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Names of phases, which a build's output gives, without secrets.
pub(crate) fn phases(phases: &mut [Phase]) {
    for phase in phases {
        mask(&mut phase.name);
    }
}

fn mask(said: &mut String) {
    if let Cow::Owned(masked) = text(said) {
        *said = masked;
    }
}

/// One name, as those of a key.
pub(crate) fn by_shape(said: &mut String) {
    if let Cow::Owned(masked) = then(blocks::mask(said), shapes::mask) {
        *said = masked;
    }
}
