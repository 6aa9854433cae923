//! Values of variables that must be masked in the end of the log.
//!
//! GitLab masks secrets only between the runner and its own log, after the agent has read it. The job does not know which variables are
//! masked, so they are chosen by name; in any variable, the part of an address before `@` is masked too.

use std::{collections::HashSet, ffi::OsString, fmt, os::unix::ffi::OsStrExt as _};

use memchr::memmem;
use serde_json::Value;

/// A variable is secret if its name contains one of these.
const SECRET_NAME_PARTS: [&str; 19] = [
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "PRIVATE_KEY",
    "PRIVKEY",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "SSH_KEY",
    "DEPLOY_KEY",
    "SIGNING_KEY",
    "GPG_KEY",
    "ENCRYPTION_KEY",
    "CREDENTIAL",
    "AUTH_CONFIG",
    "AUTHORIZATION",
    "KUBECONFIG",
];
/// A variable is secret if its name is one of these, or ends with `_` and one of these.
const SECRET_NAME_ENDS: [&str; 6] = ["PAT", "AUTH", "PASS", "JWT", "PSK", "NETRC"];
/// Least length of a secret, bytes. Shorter values are not masked: that would mask half of the log, and GitLab does not mask them either.
const SECRET_MIN_BYTES: usize = 8;
/// Longest secret, bytes: the kernel allows no longer variable (`MAX_ARG_STRLEN`, 32 pages).
pub(crate) const SECRET_BYTES: usize = 128 * 1024;
/// Most bytes of all secrets; single-line ones first, shorter ones before longer ones.
const ALL_SECRETS_BYTES: usize = 256 * 1024;
/// The replacement; not longer than [`SECRET_MIN_BYTES`], so that no text grows.
const SECRET_MASK: &[u8; SECRET_MIN_BYTES] = b"[MASKED]";

/// Values to mask in the log. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<Vec<u8>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The secrets among the variables of the environment. Each line of a multi-line value is a secret of its own, because a log contains
    /// them line by line.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let (mut single, mut lines) = (Vec::new(), Vec::new());
        for (name, value) in variables {
            let value = value.as_bytes();
            single.extend(in_addresses(value));
            single.extend(without_scheme(value));
            if !is_secret(&name.to_string_lossy()) {
                continue;
            }
            single.extend(in_json(value));
            let of_value = if value.trim_ascii().contains(&b'\n') { &mut lines } else { &mut single };
            of_value.extend(in_lines(value));
        }
        // a long value must not displace those that occur more often in logs
        single.sort_by_key(Vec::len);
        let (mut known, mut bytes) = (HashSet::new(), 0_usize);
        let found = single.into_iter().chain(lines).filter(|secret| {
            let fits = (SECRET_MIN_BYTES..=SECRET_BYTES).contains(&secret.len())
                && bytes.saturating_add(secret.len()) <= ALL_SECRETS_BYTES
                && known.insert(secret.clone());
            bytes = if fits { bytes.saturating_add(secret.len()) } else { bytes };
            fits
        });
        Self(found.collect())
    }

    /// Masks secrets in a text for the job's log: the build's name may contain one.
    pub(crate) fn mask_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask(text.as_bytes(), text.len())).into_owned()
    }

    /// The last `most` bytes of the text, with secrets masked. A secret that starts before them is recognized if the text has
    /// [`SECRET_BYTES`] more.
    pub(crate) fn mask(&self, text: &[u8], most: usize) -> Vec<u8> {
        let mut hidden = vec![false; text.len()];
        for secret in &self.0 {
            for at in memmem::find_iter(text, secret) {
                hidden.iter_mut().skip(at).take(secret.len()).for_each(|hidden| *hidden = true);
            }
        }
        let from = text.len().saturating_sub(most);
        let bytes: Vec<(u8, bool)> = text.iter().copied().zip(hidden).skip(from).collect();
        let mut masked = Vec::with_capacity(bytes.len());
        for run in bytes.chunk_by(|one, next| one.1 == next.1) {
            match run.first() {
                Some((_, true)) if run.len() >= SECRET_MASK.len() => masked.extend_from_slice(SECRET_MASK),
                // the remainder of a secret that starts before
                Some((_, true)) | None => {}
                Some((_, false)) => masked.extend(run.iter().map(|(byte, _)| *byte)),
            }
        }
        masked
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part)) || SECRET_NAME_ENDS.into_iter().any(ends)
}

fn in_lines(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    value.split(|byte| *byte == b'\n').map(|line| line.trim_ascii().to_vec())
}

/// Passwords in addresses (`scheme://user:password@host`); without a password the user, which is then a token.
fn in_addresses(value: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for at in memmem::find_iter(value, b"://") {
        let rest = value.get(at.saturating_add(3)..).unwrap_or_default();
        let end = rest.iter().position(|byte| b"/?#\"'".contains(byte) || byte.is_ascii_whitespace());
        let place = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let Some(user) = place.iter().rposition(|byte| *byte == b'@').and_then(|at| place.get(..at)) else {
            continue;
        };
        let mut parts = user.splitn(2, |byte| *byte == b':');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        found.push(if password.is_empty() { name.to_vec() } else { password.to_vec() });
    }
    found
}

/// Passwords in addresses without a scheme (`user:password@host`): words of exactly that form. A version after the `@` is not a host.
fn without_scheme(value: &[u8]) -> Vec<Vec<u8>> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'=,;".contains(byte);
    let words = value.split(ends).filter(|word| memmem::find(word, b"://").is_none());
    let password = |word: &[u8]| {
        let at = word.iter().rposition(|byte| *byte == b'@')?;
        let (user, host) = (word.get(..at)?, word.get(at + 1..)?);
        let colon = user.iter().position(|byte| *byte == b':')?;
        let is_user = colon > 0 && !user.contains(&b'/');
        let is_host = host.first()?.is_ascii_alphabetic() && !host.starts_with(b"sha");
        (is_user && is_host).then(|| user.get(colon + 1..).unwrap_or_default().to_vec())
    };
    words.filter_map(password).collect()
}

/// Texts with a secret's name in a value that is JSON: logins of a registry, the key of an account.
fn in_json(value: &[u8]) -> Vec<Vec<u8>> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(value) else { return Vec::new() };
    let (mut found, mut left) = (Vec::new(), vec![Value::Object(fields)]);
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if is_secret(&name) => found.extend(in_lines(text.as_bytes())),
                        other => left.push(other),
                    }
                }
            }
            Value::Array(values) => left.extend(values),
            _plain => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
